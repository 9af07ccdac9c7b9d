"""A tracker in a process of its own, fed through a bounded queue: it can hang, print, crash or wait for a network.

The run never waits for it, its threads, exit hooks and random numbers stay out of the run's process, and where the run
is killed the tracker sees the end of its input and stores what it has.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from burnish.tracking.spec import TrackerSpec

try:
    import fcntl
except ImportError:  # Windows has no advisory locks
    fcntl = None

QUEUED = 1000
"""Steps that may wait for a tracker. More are left out: a run of any length needs bounded memory."""


class Aside:
    """One tracker, run by burnish.tracking.worker. No method raises or waits, but for `wait`, which waits in bounds."""

    def __init__(self, spec: TrackerSpec, *, patience: float) -> None:
        self.spec, self.kind = spec, spec.kind
        self.patience = patience
        self._lines: queue.Queue[bytes] = queue.Queue(QUEUED)
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._log = Path()
        self._left_out = 0
        self._failed = False
        self._until = 0.0

    def start(self, name: str, config: Mapping[str, Any], directory: Path, resume_step: int) -> None:
        """Start the process and tell it of the run."""
        self._log = directory / f"{self.kind}.log"
        path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log, (directory / f"{self.kind}.lock").open("wb") as lock:
                take(lock.fileno(), wait=False)
                # -P: a folder called wandb in the current one must not stand in for the package
                command = [sys.executable, "-P", "-m", "burnish.tracking.worker", str(lock.fileno())]
                self._process = subprocess.Popen(
                    [*command, self.spec.model_dump_json()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
                    env=environment, pass_fds=[lock.fileno()],
                    start_new_session=True,  # Ctrl-C is for the run, which then ends its trackers
                )  # fmt: skip
        except OSError as error:
            self._fail(f"could not be started ({error})")
            return
        for work in (self._send, self._read):
            thread = threading.Thread(target=work, name=f"tracker-{self.kind}", daemon=True)
            thread.start()
            self._reader = thread
        self._put("start", name, dict(config), str(directory.absolute()), resume_step)

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """Hand over the numbers of a step, or leave them out when the tracker is far behind."""
        if not self._failed and not self._put("log", step, dict(numbers)):
            if not self._left_out:
                self._news.put(f"{QUEUED} steps behind, further ones are left out until it catches up ({self._log})")
            self._left_out += 1

    def end(self, summary: Mapping[str, Any], failed: bool) -> None:
        """Tell of the end; `wait` lets it be stored."""
        self._until = time.monotonic() + self.patience
        while not self._failed and not self._put("finish", dict(summary), failed):
            if time.monotonic() > self._until:
                break
            time.sleep(0.01)  # the queue is full: there is a place as soon as the tracker has taken one more

    def wait(self) -> None:
        """Wait for the process to end, `patience` seconds after `end` at most; then it is ended."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, self._until - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._fail(f"was not done {self.patience:g} s after the run and was ended; what it said is in {self._log}")
            _kill(self._process)
            self._process.wait()
        if self._reader is not None:
            self._reader.join(1.0)  # its input has ended with the process

    def news(self) -> list[str]:
        """What happened to the tracker since this was last asked."""
        found = []
        while not self._news.empty():
            found.append(self._news.get())
        return found

    def _put(self, verb: str, *values: Any) -> bool:
        line = json.dumps([verb, *values], default=str).encode() + b"\n"
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            return False
        return True

    def _fail(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._news.put(f"{why}; the run goes on without it")
            self._put("failed")  # so that the sender, should it wait for a line, sees that there is no use

    def _send(self) -> None:
        """The queue's lines to the process, in a thread, since a pipe may be full for as long as the process likes."""
        assert self._process is not None and self._process.stdin is not None
        try:
            with self._process.stdin as pipe:
                while not self._failed:
                    line = self._lines.get()
                    pipe.write(line)
                    pipe.flush()
                    if line.startswith(b'["finish"'):
                        return
        except OSError:
            return  # the process is gone: the reader says why

    def _read(self) -> None:
        """What the process says, in a thread: one JSON list a line."""
        assert self._process is not None and self._process.stdout is not None
        done = False
        with self._process.stdout as pipe:
            for line in pipe:
                verb, text = json.loads(line)
                match verb:
                    case "note":
                        self._news.put(text)
                    case "failed":
                        self._fail(f"{text} ({self._log})")
                    case "done":
                        done = True
        if not done:
            self._fail(f"ended unexpectedly; what it said is in {self._log}")


def take(lock: int, *, wait: bool) -> None:
    """Hold a lock file, open as `lock`, for as long as any process has this opening of it.

    The run takes it for its tracker before that has started. Where it cannot, the tracker of an earlier life of the run
    is still storing what it has, and the new one waits for it.
    """
    if fcntl is not None:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process and those it has started."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
