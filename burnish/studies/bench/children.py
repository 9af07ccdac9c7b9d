"""The sides as child processes: held until they are told to go, or run once from start to exit. No torch here."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from burnish.errors import RunError
from burnish.studies.bench.jobs import Job

START_LIMIT = 600.0
"""Seconds that a side may take to set itself up."""


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

    def go(self, limit: float | None = None) -> dict[str, Any]:
        """Have the work done once; what it took.

        Raises TooSlowError after `limit` seconds, RunError where the side has ended.
        """
        self._write(b"go\n")
        return self.read(limit)

    def read(self, limit: float | None) -> dict[str, Any]:
        """The next report."""
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            raise TooSlowError(f"{self.job.name} was not done within {limit:.0f} s") from None
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


def run_once(job: Job, folder: Path) -> Ran:
    """Run a side from start to exit. Raises RunError with the end of its log where it fails."""
    log, started_at, lines = folder / f"{job.name}.log", time.perf_counter(), []
    with log.open("wb") as errors:
        process = subprocess.Popen(
            job.command, env=dict(job.environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            cwd=folder,
        )  # fmt: skip
        assert process.stdout is not None  # it was started with a pipe
        for line in process.stdout:
            lines.append((time.perf_counter() - started_at, line))
        _, status, usage = os.wait4(process.pid, 0)
        taken = time.perf_counter() - started_at
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode:
        raise RunError(f"{job.name} ended with status {process.returncode}:\n{tail(log)}")
    return Ran(taken, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime, lines)


def tail(log: Path, count: int = 2000) -> str:
    """The end of a log."""
    return log.read_text("utf-8", errors="replace")[-count:]
