"""The sides as child processes: held until they are told to go, or run once from start to exit. No torch here."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from burnish.errors import RunError
from burnish.studies.bench.jobs import Job

START_LIMIT = 600.0
"""Seconds that a side may take to set itself up."""
ROUND_LIMIT = 1800.0
"""Seconds that a side may take for its work done once: what takes longer is stuck."""


class TooSlowError(RunError):
    """A side was not done within the time it was given."""


@dataclass
class Child:
    """A side that lives through all rounds."""

    job: Job
    process: subprocess.Popen[bytes]
    log: Path
    about: dict[str, Any] = field(default_factory=dict)
    """What it said when it was ready."""
    _lines: queue.Queue[bytes | None] = field(default_factory=queue.Queue)

    def go(self, limit: float = ROUND_LIMIT) -> dict[str, Any]:
        """Have the work done once; what it took.

        Raises TooSlowError after `limit` seconds, RunError where the side has ended.
        """
        self._write(b"go\n")
        return self.read(limit)

    def read(self, limit: float) -> dict[str, Any]:
        """The next report. One that does not come in time is the last: the side is ended, for its answers would be
        those to what it was asked before."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            self.process.kill()
            raise TooSlowError(_too_slow(self.job.name, limit, self.log)) from None
        if line is None:
            raise RunError(f"{self.job.name} ended with status {self.process.wait()}:\n{tail(self.log)}")
        return json.loads(line)

    def close(self) -> None:
        """End it."""
        if self.process.poll() is None:
            try:
                self._write(b"end\n")
                self.process.wait(10)
            except (subprocess.TimeoutExpired, RunError):
                self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):  # an order that it did not live to read
                self.process.stdin.close()

    def listen(self, stream: IO[bytes]) -> None:
        """Gather reports until the stream ends."""
        for line in stream:
            self._lines.put(line)
        self._lines.put(None)

    def _write(self, order: bytes) -> None:
        assert self.process.stdin is not None  # it was started with a pipe
        try:
            self.process.stdin.write(order)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise RunError(f"{self.job.name} ended with status {self.process.wait()}:\n{tail(self.log)}") from None


@contextmanager
def started(jobs: Sequence[Job], folder: Path, limit: float = START_LIMIT) -> Iterator[dict[str, Child]]:
    """The sides, set up one after the other and ready; ended when the block ends."""
    children: dict[str, Child] = {}
    try:
        for job in jobs:
            log = folder / f"{job.name}.log"
            with log.open("wb") as errors:
                process = subprocess.Popen(
                    job.command, env=dict(job.environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=errors, cwd=folder,
                )  # fmt: skip
            child = children[job.name] = Child(job, process, log)
            threading.Thread(target=child.listen, args=(process.stdout,), daemon=True).start()
            child.about = child.read(limit)
        yield children
    finally:
        for child in children.values():
            child.close()


@dataclass(frozen=True)
class Ran:
    """A process that ran from start to exit."""

    seconds: float
    peak_memory: int
    """Bytes; what `os.wait4` says, so no less than what the starting process held."""
    processor_seconds: float
    lines: list[tuple[float, bytes]]
    """What it printed, with the seconds after its start."""


def run_once(job: Job, folder: Path, limit: float = ROUND_LIMIT) -> Ran:
    """Run a side from start to exit.

    Raises RunError with the end of its log where it fails, TooSlowError where it takes more than `limit` seconds.
    """
    log, started_at, lines = folder / f"{job.name}.log", time.perf_counter(), []
    with log.open("wb") as errors:
        process = subprocess.Popen(
            job.command, env=dict(job.environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            cwd=folder,
        )  # fmt: skip
        assert process.stdout is not None  # it was started with a pipe
        late = threading.Event()
        # not process.kill, which would ask how it ended and so take away what wait4 says
        watch = threading.Timer(limit, lambda: (late.set(), os.kill(process.pid, signal.SIGKILL)))
        watch.start()
        try:
            for line in process.stdout:
                lines.append((time.perf_counter() - started_at, line))
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            watch.cancel()
        taken = time.perf_counter() - started_at
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if late.is_set():
        raise TooSlowError(_too_slow(job.name, limit, log))
    if process.returncode:
        raise RunError(f"{job.name} ended with status {process.returncode}:\n{tail(log)}")
    return Ran(taken, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, lines)


def _too_slow(name: str, limit: float, log: Path) -> str:
    end = tail(log).strip()
    return f"{name} was not done within {limit:g} s, and was ended" + (f"; its log ends with:\n{end}" if end else "")


def tail(log: Path, count: int = 2000) -> str:
    """The end of a log."""
    return log.read_text("utf-8", errors="replace")[-count:]
