"""What memory a process holds and what it can still have. No torch here."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import psutil

_GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)
"""Where a container's limit, what it uses, and what of that are file pages that can be dropped stand (cgroup 2, 1)."""


def held_memory() -> int:
    """Bytes of memory the process holds, after it has given back what its allocator keeps without using."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(0)
    return int(psutil.Process().memory_info().rss)


def peak_memory() -> int:
    """Bytes of the most memory the process has held so far.

    getrusage is not asked on Linux: what it says of a process also covers the one that started it.
    """
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # there is none on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def free_memory() -> int:
    """Bytes of memory that can still be had without swapping, within the limit of a container."""
    free = int(psutil.virtual_memory().available)
    for limit, usage, statistics, droppable in _GROUPS:
        try:
            most, used = int(Path(limit).read_text()), int(Path(usage).read_text())
            counted = dict(line.split() for line in Path(statistics).read_text().splitlines())
        except (OSError, ValueError):  # no such group, or "max": no limit
            continue
        free = min(free, max(0, most - used + int(counted.get(droppable, 0))))
    return free
