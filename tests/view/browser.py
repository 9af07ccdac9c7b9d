"""A real browser for the tests: headless Chromium, spoken to over its own protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
MISSING = (
    "the page is tested in Chromium, which is not here: install it (Debian and Ubuntu: `apt-get install chromium`; "
    "macOS: `brew install --cask chromium`), or name one in $CHROMIUM"
)
PATIENCE = 30.0
"""Seconds that anything in the browser may take before a test fails."""


def chromium() -> str:
    """Where Chromium is. Fails with what to install when it is nowhere."""
    named = os.environ.get("CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise AssertionError(MISSING)
    return found


class Browser:
    """A process of Chromium with a profile of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        options = [
            "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0", f"--user-data-dir={folder}",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-dev-shm-usage",
            "--disable-component-update", "--mute-audio", "--force-color-profile=srgb",
        ]  # fmt: skip
        with (folder / "log").open("wb") as log:
            self.process = subprocess.Popen([chromium(), *options, "about:blank"], stdout=log, stderr=log)
        place = folder / "DevToolsActivePort"
        waited(lambda: place.is_file() and place.read_text().count("\n") >= 1, "Chromium began")
        self.port = int(place.read_text().split("\n")[0])

    def page(self) -> Page:
        """A new tab."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return Page(json.load(answer)["webSocketDebuggerUrl"])

    def close(self) -> None:
        """End the process."""
        self.process.terminate()
        self.process.wait(PATIENCE)


class Page:
    """A tab: what it runs, what it complained about, what it asked the network for."""

    def __init__(self, address: str) -> None:
        self._open = ExitStack()
        self._socket = self._open.enter_context(connect(address, max_size=2**28, max_queue=None, ping_interval=None))
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **given: Any) -> dict[str, Any]:
        """One command of the protocol; events that arrive meanwhile are kept."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": given}))
        while True:
            message = json.loads(self._socket.recv(PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self._event(message)

    def _event(self, message: dict[str, Any]) -> None:
        kind, given = message.get("method"), message.get("params", {})
        if kind == "Runtime.exceptionThrown":
            details = given["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Log.entryAdded" and given["entry"]["level"] == "error":
            self.complaints.append(f"{given['entry']['text']} {given['entry'].get('url', '')}")
        elif kind == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(str([argument.get("value") for argument in given["args"]]))
        elif kind == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {given['message']}")
            self._socket.send(
                json.dumps({"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": True}})
            )
        elif kind == "Network.requestWillBeSent":
            self.asked.append(given["request"]["url"])

    def size(self, width: int, height: int = 900) -> None:
        """Set the window's size, as a phone's below 600 pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def colours(self, scheme: str) -> None:
        """What the system prefers: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Go to an address, and return when everything is drawn."""
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete' && 'drawn' in document.documentElement.dataset")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str) -> None:
        """Return when an expression has become true."""
        waited(lambda: self.run(script), script)

    def hover(self, selector: str) -> None:
        """Bring an element into view and put the pointer over it."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const b = e.getClientRects()[0]; return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def press(self, key: str) -> None:
        """Press and let go of a key."""
        codes = {"Tab": 9, "Enter": 13, "ArrowRight": 39, "ArrowLeft": 37, "ArrowDown": 40, "Escape": 27, " ": 32}
        text = {"Enter": "\r", " ": " "}.get(key)
        about = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key], **({"text": text} if text else {})}
        self.call("Input.dispatchKeyEvent", type="keyDown", **about)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes[key])

    def picture(self, path: Path, *, top: float = 0, width: int, height: int) -> None:
        """Save a part of the page as a PNG file."""
        area = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=area, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self) -> None:
        """Close the tab."""
        self.call("Page.close")
        self._open.close()


def waited(happened: Callable[[], Any], what: str, seconds: float = PATIENCE) -> None:
    """Return when something has happened; fail when it has not after a while."""
    end = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds:.0f} s: {what}")
        time.sleep(0.05)
