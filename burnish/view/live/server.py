"""The live page of a run over HTTP: read-only, on this machine alone unless a token guards it."""

from __future__ import annotations

import hmac
import secrets
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from burnish.errors import InputError
from burnish.view.document import policy
from burnish.view.live.following import Following
from burnish.view.stored import SAMPLE

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = ("127.0.0.1", "localhost", "::1")
COOKIE = "burnish-token"


def headers() -> dict[str, str]:
    """What every answer states: what a page may do, that nobody frames, guesses or keeps it."""
    return {
        "Content-Security-Policy": policy(live=True) + "; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


def application(following: Following, *, token: str | None = None, hosts: tuple[str, ...] = LOOPBACK) -> Starlette:
    """The pages of a run: `/` and `/changes`, answers to GET alone.

    Without a `token` only requests that name one of `hosts` are answered, so that no other site can have a browser read
    this one under a name of its own. With one, every request must bring it: as a bearer token, as ?token=, which is
    exchanged for a cookie, or as that cookie.
    """
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse
    from starlette.routing import Route

    def page(request: Request) -> Response:
        if (refusal := refused(request)) is not None:
            return refusal
        if token is not None and "token" in request.query_params:
            answer = RedirectResponse("/", status_code=303, headers=headers())
            answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/")
            return answer
        return HTMLResponse(following.page().html.encode("utf-8", "replace"), headers=headers())

    def changes(request: Request) -> Response:
        if (refusal := refused(request)) is not None:
            return refusal
        asked = request.query_params
        try:
            sections, stored = int(asked.get("sections", "-1")), int(asked.get("stored", "-1"))
        except ValueError:
            return PlainTextResponse("sections and stored are whole numbers\n", 400, headers())
        return JSONResponse(following.changes(asked.get("cursor", ""), sections, stored), headers=headers())

    def refused(request: Request) -> Response | None:
        if token is None:
            if request.url.hostname in hosts:
                return None
            return PlainTextResponse("this page answers under the name of this machine alone\n", 400, headers())
        bearer = request.headers.get("authorization", "")
        given = [request.query_params.get("token", ""), request.cookies.get(COOKIE, ""), bearer.removeprefix("Bearer ")]
        if any(hmac.compare_digest(one.encode(), token.encode()) for one in given):
            return None
        told = "this page needs its token: open the address that `burnish view` printed\n"
        return PlainTextResponse(told, 401, headers())

    def failed(request: Request, error: Exception) -> Response:
        if isinstance(error, HTTPException):
            return PlainTextResponse(f"{error.detail}\n", error.status_code, {**headers(), **(error.headers or {})})
        return PlainTextResponse(f"{error}\n", 500, headers())

    routes = [Route("/", page, methods=["GET"]), Route("/changes", changes, methods=["GET"])]
    return Starlette(routes=routes, exception_handlers={HTTPException: failed, InputError: failed})


class LivePage:
    """A page being served by a thread of this process, until `close` or the end of a `with` block."""

    def __init__(self, app: Any, host: str, port: int, token: str | None) -> None:
        import uvicorn

        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(64)  # from now on who connects waits for the server instead of being refused
        except OSError as error:
            self._socket.close()
            raise InputError(
                f"{host}:{port} cannot be listened on ({error.strerror or error}); give another port, 0 for any"
            ) from None
        self.host, self.port, self.token = host, self._socket.getsockname()[1], token
        settings = uvicorn.Config(
            app, log_level="error", access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1,
            server_header=False, date_header=False,
        )  # fmt: skip
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), daemon=True, name="burnish-view"
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to open, with the token where there is one."""
        host = "127.0.0.1" if self.host == "0.0.0.0" else "[::1]" if self.host == "::" else self.host
        name = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"http://{name}:{self.port}/" + (f"?token={quote(self.token, safe='')}" if self.token else "")

    def wait(self) -> None:
        """Return when the server has ended."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # with a timeout, so that Ctrl-C arrives

    def close(self) -> None:
        """End the server and free its port."""
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def __enter__(self) -> LivePage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"LivePage({self.url})"


def view_run(
    run: str | Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> LivePage:
    """Serve the page of a run, which keeps itself up to date while the run goes on; nothing can be changed through it.

    A `host` that others reach needs a token: without one given one is made, and stands in the `url`. `port` 0 takes any
    that is free; `sample` and `seed` are those of `burnish.report`. Raises InputError when this is no run, the token is
    empty, the port is taken, or the packages of the extra `view` are missing.
    """
    if token is not None and (not token.strip() or not token.isascii()):
        raise InputError("token: give letters and digits, or leave it out and one is made where one is needed")
    if sample < 0:
        raise InputError(f"sample: given {sample}; it takes a whole number >= 0")
    if not 0 <= port <= 65535:
        raise InputError(f"port: given {port}; it takes a number from 0 to 65535")
    following = Following(Path(run), sample=sample, seed=seed)
    if host not in LOOPBACK and token is None:
        token = secrets.token_urlsafe(24)
    try:
        app = application(following, token=token)
        return LivePage(app, host, port, token)
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise InputError(f"the live page needs {error.name}: pip install 'burnish[view]'") from None
