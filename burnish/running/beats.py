"""Reading a run's heartbeat: where it is, how old that is, and whether its process still lives. No torch here."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from burnish.running.progress import duration

HEARTBEAT = "heartbeat.json"
"""The file's name in a run directory."""

_SILENCE = 10.0
"""Seconds without a beat after which a live process is said to stand still; beats come every second."""

_SAME_START = 3.0
"""Two starts closer than this, in seconds, are one: the system tells its own start to the second."""


@dataclass(frozen=True)
class Beat:
    """What a run was doing when its heart last beat."""

    phase: str
    done: int
    total: int
    step: int
    age: float
    """Seconds in this phase, up to now where `since_written` is known."""
    still: float
    """Seconds since anything of phase, done or step has changed, up to now where `since_written` is known."""
    ended: bool
    """Whether the run was over, well or not; its process may live on, in a notebook."""
    pid: int
    host: str
    rss_bytes: int
    written_at: float
    """Seconds since the epoch, by a clock that may have been set since."""
    since_written: float | None
    """Seconds since the beat by the monotonic clock; None where the two clocks cannot be compared."""
    alive: bool | None
    """Whether the process lives; None for one on another machine, of which that cannot be known from here."""


def since_boot(process: psutil.Process) -> float:
    """Seconds from the start of the machine to that of a process: with the pid this names a process.

    Setting the clock moves both times alike, so the difference stays.
    """
    return process.create_time() - psutil.boot_time()


def read_heartbeat(run: str | Path) -> Beat | None:
    """The last beat of the run in a directory; None when there is no file, or none that can be read."""
    try:
        return _beat(json.loads((Path(run) / HEARTBEAT).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, OverflowError):
        return None  # absent, torn, or written by something else


def _beat(found: dict[str, Any]) -> Beat:
    alive = _alive(int(found["pid"]), float(found["since_boot"]), str(found["host"]))
    since = time.monotonic() - float(found["written_monotonic"])
    # another start of the machine, or another machine, has another monotonic clock
    known = since if alive and since >= 0 else None
    return Beat(
        phase=str(found["phase"]), done=int(found["done"]), total=int(found["total"]), step=int(found["step"]),
        age=float(found["age_seconds"]) + (known or 0.0), still=float(found["still_seconds"]) + (known or 0.0),
        ended=bool(found["ended"]), pid=int(found["pid"]), host=str(found["host"]), rss_bytes=int(found["rss_bytes"]),
        written_at=float(found["written_at"]), since_written=known, alive=alive,
    )  # fmt: skip


def _alive(pid: int, started: float, host: str) -> bool | None:
    if host != socket.gethostname():
        return None
    try:
        process = psutil.Process(pid)
        same = abs(since_boot(process) - started) < _SAME_START
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None


def describe_heartbeat(beat: Beat | None) -> str:
    """One line: what a run is doing, or was doing when it was last heard of."""
    if beat is None:
        return "it has no heartbeat that can be read"
    place = f"phase {beat.phase!r}, {beat.done} of {beat.total}, step {beat.step}"
    if beat.ended:
        return f"it ended in {place}"
    if beat.alive is None:
        return f"it was in {place}, on {beat.host}; whether process {beat.pid} still lives cannot be seen from here"
    if not beat.alive:
        return f"its process {beat.pid} is gone; it was in {place}"
    if beat.since_written is not None and beat.since_written > _SILENCE:
        return (
            f"process {beat.pid} lives but has not beaten for {duration(beat.since_written)}: it is suspended, or one "
            f"call holds its interpreter; it was in {place}"
        )
    return (
        f"process {beat.pid} is in {place}, for {duration(beat.age)}, last progress {duration(beat.still)} ago, "
        f"{beat.rss_bytes / 1e9:.1f} GB"
    )
