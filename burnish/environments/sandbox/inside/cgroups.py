"""Control groups (version 2) for sandboxes, where the system has given this process a place to make them.

That is a group with the controllers `memory` and `pids` switched on for its children, in which this process may make a
directory: its own group, or the one above (as systemd delegates it). Nothing is switched on or moved to get there.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CONTROLLERS = {"memory", "pids"}


@dataclass(frozen=True)
class Cgroup:
    """A group for one sandbox's candidates. Its files are opened before the sandbox loses sight of them."""

    members: int
    events: int

    def enter(self) -> None:
        """Move this process into the group."""
        os.write(self.members, b"0")

    def out_of_memory(self) -> int:
        """How many processes the kernel has killed in this group because its memory was used up."""
        lines = os.pread(self.events, 4096, 0).decode().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def home(mount: str = "/sys/fs/cgroup") -> Path | None:
    """The group under which this process may make limited ones; None: there is none, and rlimits have to do."""
    with open("/proc/self/cgroup") as file:
        own = next((line.rstrip("\n")[3:] for line in file if line.startswith("0::")), None)
    if own is None:
        return None
    here = Path(mount + own)
    for group in (here, here.parent) if own != "/" else (here,):
        try:
            controllers = set((group / "cgroup.subtree_control").read_text(encoding="ascii").split())
        except OSError:
            continue
        if controllers >= _CONTROLLERS and os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK):
            return group
    return None


def create(group: Path, *, memory: int, processes: int) -> Cgroup:
    """Make a group with a hard limit of memory (bytes) and processes. Raises OSError."""
    group.mkdir()
    (group / "memory.max").write_text(str(memory))
    (group / "pids.max").write_text(str(processes))
    with suppress(FileNotFoundError):  # the kernel may be built without swap
        (group / "memory.swap.max").write_text("0")
    return Cgroup(os.open(group / "cgroup.procs", os.O_WRONLY), os.open(group / "memory.events", os.O_RDONLY))
