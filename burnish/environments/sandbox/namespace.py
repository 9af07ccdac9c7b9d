"""Sandboxes of Linux namespaces, made without any external program: docs/sandbox.md says what they keep and how."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from burnish.environments.sandbox.channel import Channel
from burnish.environments.sandbox.interpreter import interpreter
from burnish.environments.sandbox.launch import Helper
from burnish.environments.sandbox.results import Cause, ExecResult, SandboxError, SandboxStatus, fault, judge
from burnish.environments.sandbox.spec import Demand, SandboxSpec
from burnish.errors import InputError

GRACE = 30.0
"""Seconds that a sandbox may be late with an answer before it is taken for dead."""

ENVIRONMENT = {
    "HOME": "/work", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip
"""Variables of every sandbox, with PATH. One thread for numerical libraries: threads count as processes."""


class NamespaceSandbox:
    """See `Sandbox`. Made by `NamespaceProvider.create`; belongs to the event loop that it is used in."""

    def __init__(self, spec: SandboxSpec, helper: Helper, channel: Channel, number: int, path: str) -> None:
        self.spec = spec
        self.helper, self._channel, self._number, self._path = helper, channel, number, path
        self._lock = asyncio.Lock()
        self._hidden: dict[str, bytes] = {}
        self._executions = 0
        self._closed = False

    async def exec(
        self,
        command: Sequence[str],
        *,
        stdin: bytes = b"",
        wall_seconds: float | None = None,
        output_bytes: int | None = None,
        env: Mapping[str, str] | None = None,
        verifying: bool = False,
    ) -> ExecResult:
        """See `Sandbox.exec`."""
        variables = {**ENVIRONMENT, "PATH": self._path, **self.spec.env, **(env or {})}
        _check([*command, *variables, *variables.values()], command)
        wall = self.spec.wall_seconds if wall_seconds is None else wall_seconds
        hidden = self._hidden if verifying else {}
        request = {
            "ask": "exec", "command": list(command), "env": variables, "wall_seconds": wall, "stdin": len(stdin),
            "output_bytes": int(self.spec.output_bytes) if output_bytes is None else output_bytes,
            "hidden": [[name, len(content)] for name, content in hidden.items()],
        }  # fmt: skip
        try:
            facts, output = await self._ask(request, stdin + b"".join(hidden.values()), wall + GRACE)
        except SandboxError as error:
            return fault(str(error))
        self._executions += 1
        return judge(facts, output, {**_limits(self.spec), "wall_seconds": wall}, command[0])

    async def upload(self, path: str, content: bytes, *, hidden: bool = False, executable: bool = False) -> None:
        """See `Sandbox.upload`."""
        _check([path], [path])
        if hidden:
            name = posixpath.normpath(path)
            if name.startswith(("/", "..")) or name == ".":
                raise InputError(f"hidden file {path!r}: give a path relative to /hidden, that stays in it")
            self._hidden[name] = content
            return
        mode = 0o755 if executable else 0o644
        await self._ask({"ask": "put", "path": posixpath.join("/work", path), "mode": mode}, content, GRACE)

    async def download(self, path: str, *, most: int = 16 << 20) -> bytes:
        """See `Sandbox.download`."""
        _check([path], [path])
        request = {"ask": "get", "path": posixpath.join("/work", path), "most": most}
        return (await self._ask(request, b"", GRACE))[1]

    async def status(self) -> SandboxStatus:
        """See `Sandbox.status`."""
        if self._closed or self._lock.locked():
            return SandboxStatus("closed" if self._closed else "busy", self._executions)
        used, _ = await self._ask({"ask": "status"}, b"", GRACE)
        return SandboxStatus("ready", self._executions, used["disk"], used["files"])

    async def close(self) -> None:
        """See `Sandbox.close`."""
        if self._closed:
            return
        self._closed = True
        if not await self._channel.end(GRACE):
            self.helper.kill(self._number)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, request: dict[str, Any], blob: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        """The answer to a request. Raises SandboxError: refused, or no answer, and then the sandbox is closed."""
        async with self._lock:
            if self._closed:
                raise SandboxError("the sandbox is closed")
            answered = False
            try:
                header, answer = await self._channel.ask(request, blob, seconds)
                answered = True
            finally:
                if not answered:  # nothing more can be asked: the answer to this may still come
                    self._closed = True
                    self._channel.close()
                    self.helper.kill(self._number)
        if "error" in header:
            raise SandboxError(header["error"], Cause.CANDIDATE if self._executions else Cause.MACHINERY)
        return header, answer


class NamespaceProvider:
    """See `Provider`. Everything that it makes ends with it, and with this process."""

    name = "namespace"

    def __init__(self) -> None:
        self.helper = Helper()
        self._measured: dict[Demand, bool] | None = None

    async def create(self, spec: SandboxSpec | None = None) -> NamespaceSandbox:
        """See `Provider.create`. Raises InputError for a path that cannot be shown, too."""
        spec = spec or SandboxSpec()
        for inside, outside in spec.read_only.items():
            if not os.path.exists(outside):
                raise InputError(f"sandbox.read_only: {inside}: {outside} does not exist on this machine")
            if os.geteuid() == 0 and not os.stat(outside).st_mode & 0o004:
                raise InputError(
                    f"sandbox.read_only: {inside}: {outside} is for its owner only, which a candidate is not; "
                    f"`chmod -R o+rX {outside}` would show it"
                )
        if spec.demands:
            await self._insist(spec.demands)
        return await self._create(spec)

    async def capabilities(self) -> Mapping[Demand, bool]:
        """See `Provider.capabilities`. Measured once."""
        if self._measured is None:
            from burnish.environments.sandbox.probe import probe

            self._measured = {row.name: row.holds for row in await probe(self)}
        return self._measured

    async def close(self) -> None:
        """See `Provider.close`."""
        await asyncio.to_thread(self.helper.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def _insist(self, demands: Sequence[Demand]) -> None:
        held = await self.capabilities()
        lacking = [name for name in demands if not held[name]]
        if lacking:
            raise InputError(
                f"sandbox.demands: {', '.join(lacking)}: not kept on this machine, as `burnish env probe` shows; "
                "use a machine that keeps it, or take the demand out of the task"
            )

    async def _create(self, spec: SandboxSpec) -> NamespaceSandbox:
        python = interpreter(spec.packages)
        limits = {**_limits(spec), "binds": {**python.binds, **spec.read_only}, "masks": python.masks}
        ours, number = self.helper.new()
        channel = Channel(ours)
        stands = False
        try:
            header, _ = await channel.ask(limits, b"", GRACE)
            stands = "error" not in header
        finally:
            if not stands:
                channel.close()
                self.helper.kill(number)
        if not stands:
            raise SandboxError(f"no sandbox can be made here: {header['error']}; {_ADVICE}")
        return NamespaceSandbox(spec, self.helper, channel, number, python.path)


_ADVICE = (
    "it takes user, mount, process and network namespaces and a /proc of its own, which a container may forbid, or a "
    "setting such as kernel.apparmor_restrict_unprivileged_userns (docs/sandbox.md)"
)


def _limits(spec: SandboxSpec) -> dict[str, Any]:
    return {
        "memory": int(spec.memory), "address_space": int(spec.address_space or spec.memory),
        "processes": spec.processes, "disk": int(spec.disk), "files": spec.files, "open_files": spec.open_files,
        "cpu_seconds": spec.cpu_seconds, "loopback": spec.network == "loopback", "wall_seconds": spec.wall_seconds,
    }  # fmt: skip


def _check(words: Sequence[str], command: Sequence[str]) -> None:
    if not command or not command[0]:
        raise InputError("a command needs a program")
    if any("\0" in word for word in words):
        raise InputError(f"{command[0][:80]!r}: a command, variable or path cannot hold a nul byte")
