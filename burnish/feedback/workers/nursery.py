"""The run's side of the mother process: start it, have it fork and end workers, start another when it is lost."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from burnish.feedback.workers.mother import ORDER, REPLY, UNKNOWN

START_LIMIT = 120.0
"""Seconds that the mother may take to import what it was told to."""

REPLY_LIMIT = 30.0
"""Seconds that it may take to fork or end a worker."""

STARTS = 3
"""Failed starts in a row after which no other is tried."""


_CODE = (
    "import sys, types, burnish; room = types.ModuleType('burnish.feedback'); sys.modules[room.__name__] = room; "
    "room.__path__ = [path + '/feedback' for path in burnish.__path__]; "
    "from burnish.feedback.workers import mother; mother.main()"
)
"""The mother's program: this room's modules, without all that its `__init__` loads for a run."""


class PoolBrokenError(Exception):
    """No worker can be had; the message says why."""


class Nursery:
    """Forks workers through one mother process. Its methods may be called from any thread."""

    def __init__(self, preload: Sequence[str]) -> None:
        self.preload = list(preload)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._failed = 0
        self._why = ""

    def fork(self) -> tuple[int, socket.socket, int]:
        """A new worker: its process id, the connection to it, and the pipe that it writes its progress to.

        Raises PoolBrokenError.
        """
        ours, theirs = socket.socketpair()
        progress, says = os.pipe()
        try:
            with self._lock:
                for attempt in range(2):  # a mother that was killed since it was last asked is replaced once
                    control = self._started()
                    try:
                        socket.send_fds(control, [b"f" + bytes(ORDER - 1)], [theirs.fileno(), says])
                        return self._reply(control)[0], ours, progress
                    except OSError as error:
                        self._drop()
                        if attempt:
                            raise PoolBrokenError(f"the mother of the workers was lost: {error}") from None
            raise AssertionError("unreachable")
        except BaseException:
            ours.close()
            os.close(progress)
            raise
        finally:
            theirs.close()
            os.close(says)

    def end(self, pid: int) -> int | None:
        """End a worker, if it has not ended by itself. Returns how it ended, or None when nobody knows."""
        with self._lock:
            if self._control is None:
                return None
            try:
                self._control.sendall(b"e" + pid.to_bytes(ORDER - 1, "big"))
                status = self._reply(self._control)[1]
                return None if status == UNKNOWN else status
            except OSError:
                self._drop()
                return None

    @property
    def pid(self) -> int | None:
        """The mother's process id, when there is one."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the mother, and with it every worker."""
        with self._lock:
            self._drop()

    def _started(self) -> socket.socket:
        if self._control is not None:
            return self._control
        if self._failed >= STARTS:
            raise PoolBrokenError(self._why)
        ours, theirs = socket.socketpair()
        with tempfile.TemporaryFile() as said:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, str(theirs.fileno()), *self.preload],
                pass_fds=[theirs.fileno()], env=_environment(), start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            )  # fmt: skip
            theirs.close()
            try:
                self._reply(ours, START_LIMIT)
            except OSError as error:
                self._control = ours
                self._drop()
                said.seek(0)
                last = said.read()[-500:].decode("utf-8", "replace").strip()
                self._failed += 1
                self._why = f"the workers do not start: {last or error}"
                raise PoolBrokenError(self._why) from None
        self._failed = 0
        self._control = ours
        return ours

    def _reply(self, control: socket.socket, seconds: float = REPLY_LIMIT) -> tuple[int, int]:
        deadline, data = time.monotonic() + seconds, b""
        while len(data) < REPLY:
            control.settimeout(max(deadline - time.monotonic(), 1e-3))
            more = control.recv(REPLY - len(data))
            if not more:
                raise ConnectionError("it closed the connection")
            data += more
        return int.from_bytes(data[:8], "big"), int.from_bytes(data[8:], "big")

    def _drop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(5.0)  # it ends its workers first
            self._process.kill()
            self._process.wait()
            self._process = None


def _environment() -> dict[str, str]:
    """Ours, with this very package first on the path and without threads that a worker has no use for."""
    here = str(Path(__file__).parents[3])
    path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
