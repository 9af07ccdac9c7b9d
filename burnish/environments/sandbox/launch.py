"""The helper process of a provider: started once, lean, asked for sandboxes over a socket."""

from __future__ import annotations

import itertools
import os
import platform
import socket
import subprocess
import sys
import threading
from pathlib import Path

from burnish.environments.sandbox.results import SandboxError

OLDEST_KERNEL = (5, 14)
"""Mounts sealed with all below them (5.12), process limits counted in each user namespace by itself (5.14)."""

_PATIENCE = 30.0  # seconds that the end of all its sandboxes may take
_CODE = (
    "import sys, socket; sys.path.append(sys.argv[1]); from inside import helper; "
    "helper.main(socket.socket(fileno=int(sys.argv[2])))"
)


class Helper:
    """Starts the process when it is first needed, and again when it has died. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._owner = 0

    @property
    def pid(self) -> int | None:
        """The process, if it has been started."""
        return self._process.pid if self._process is not None else None

    def new(self) -> tuple[socket.socket, int]:
        """The channel and the number of a new sandbox, which waits for its limits. Raises SandboxError."""
        with self._lock:
            control = self._running()
            number = next(self._numbers)
            ours, theirs = socket.socketpair()
            with theirs:
                try:
                    socket.send_fds(control, [f"new {number}".encode("ascii")], [theirs.fileno()])
                except OSError as error:
                    ours.close()
                    raise SandboxError(f"the sandbox helper cannot be reached: {error}") from error
        ours.setblocking(False)
        return ours, number

    def kill(self, number: int) -> None:
        """End a sandbox that does not answer."""
        with self._lock:
            if self._control is not None and self._process is not None and self._process.poll() is None:
                self._control.send(f"kill {number}".encode("ascii"))

    def close(self) -> None:
        """End the process, and with it every sandbox."""
        with self._lock:
            process, control = self._process, self._control
            self._process = self._control = None
            if control is not None:
                control.close()
            if process is not None and self._owner == os.getpid():
                try:
                    process.wait(_PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def _running(self) -> socket.socket:
        if self._owner != os.getpid():  # a fork of this process has no helper of its own yet
            self._process = self._control = None
        if self._process is None or self._control is None or self._process.poll() is not None:
            if self._control is not None:
                self._control.close()
            self._process, self._control = _start()
            self._owner = os.getpid()
        return self._control


def _start() -> tuple[subprocess.Popen[bytes], socket.socket]:
    if sys.platform != "linux":
        raise SandboxError(f"sandboxes are made of Linux namespaces, which {sys.platform} does not have")
    kernel = tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])
    if kernel < OLDEST_KERNEL:
        raise SandboxError(
            f"sandboxes need Linux {'.'.join(map(str, OLDEST_KERNEL))} or later; this is {platform.release()}"
        )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", "-B", "-c", _CODE, str(Path(__file__).parent), str(theirs.fileno())]
    with theirs:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()], env={}, cwd="/", start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            ours.close()
            raise SandboxError(f"the sandbox helper cannot be started: {error}") from error
    return process, ours
