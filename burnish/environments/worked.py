"""How long an environment has worked, as far as a busy machine can be told from a slow environment.

Linux counts for each thread how long it was ready to run and waited for a processor (schedstat), and how often it gave
its processor up of itself. Waiting for the lock of the Python interpreter is such giving up, at least once for each
switch interval waited. What both explain is taken off the wall clock. No torch here.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # not Linux
    getrusage = None


@dataclass(frozen=True)
class Reading:
    """What the clocks of a thread show: seconds on the wall, of processor, of waiting for one; and how often it gave
    its processor up. The last three are None where the kernel does not tell all of them."""

    wall: float
    processor: float | None = None
    queued: float | None = None
    given_up: int | None = None


def now() -> Reading:
    """The clocks of the thread that asks."""
    queued = _queued()
    if queued is None or getrusage is None:
        return at_once()
    given_up = getrusage(RUSAGE_THREAD).ru_nvcsw
    return Reading(time.perf_counter(), time.thread_time(), queued, given_up)


def at_once() -> Reading:
    """The wall's clock alone, for what is over before the others could be read."""
    return Reading(time.perf_counter())


def worked(before: Reading, after: Reading) -> float:
    """Seconds of work between two readings of one thread: its processor time, and its waiting for something else than
    a processor or the interpreter. Of that, as much as 5 ms (`sys.getswitchinterval`) of each wait is not counted,
    since waiting for the interpreter looks the same. Where the kernel does not tell, the wall clock.
    """
    wall = after.wall - before.wall
    if before.processor is None or after.processor is None:
        return wall
    assert before.queued is not None and after.queued is not None  # they are told together
    assert before.given_up is not None and after.given_up is not None
    processor, queued = after.processor - before.processor, after.queued - before.queued
    interpreter = (after.given_up - before.given_up) * sys.getswitchinterval()
    return min(wall, processor + max(0.0, wall - processor - queued - interpreter))


def _queued() -> float | None:
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError):  # the kernel does not count it
        return None
