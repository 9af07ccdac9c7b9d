"""The sandbox's own view of its processes: memory and processor time of all together, read from its /proc.

Limits of the kernel (rlimits) hold for each process; these numbers are for the sum, and are looked at a few dozen times
a second.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")


@dataclass
class Watch:
    """What has been seen of the candidate's processes so far."""

    memory: int = 0  # bytes resident, the last time
    peak: int = 0
    alone: bool = True
    """No two threads of the candidate's ever wanted a processor at once, and none had made itself less urgent."""
    urgency: tuple[int, int] = field(
        default_factory=lambda: (os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))
    )
    _seconds: dict[tuple[int, bytes], float] = field(default_factory=dict)  # by process id and start
    _gone: float = 0.0

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all processes seen, those that are gone included."""
        return self._gone + sum(self._seconds.values())

    def look(self, limit: int) -> None:
        """Read every process but the first. Pages that some share are shared out, if the sum is over `limit`."""
        seconds: dict[tuple[int, bytes], float] = {}
        memory = busy = 0
        for pid in processes():
            stat = _read(f"/proc/{pid}/stat")
            if not stat:
                continue  # it ended since
            f = stat[stat.rindex(b")") + 2 :].split()  # proc(5): f[0] is field 3, the state
            seconds[pid, f[19]] = (int(f[11]) + int(f[12])) / _TICK
            memory += int(f[21]) * _PAGE
            busy += int(f[17]) if f[0] == b"R" or int(f[17]) > 1 else 0
            self.alone = self.alone and (int(f[16]), int(f[38])) == self.urgency
        self._gone += sum(value for key, value in self._seconds.items() if key not in seconds)
        self._seconds = seconds
        self.alone = self.alone and busy <= 1
        self.memory = memory if memory <= limit else sum(_proportional(pid) for pid in processes())
        self.peak = max(self.peak, self.memory)


def processes() -> list[int]:
    """Every process of this sandbox but the first."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def waited() -> float:
    """The most seconds that a living process has been ready to run, and waited for a processor."""
    delays = [_read(f"/proc/{pid}/schedstat").split() for pid in processes()]  # empty where the kernel does not count
    return max((int(delay[1]) / 1e9 for delay in delays if len(delay) > 1), default=0.0)


def _proportional(pid: int) -> int:
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):  # the process has ended
        return b""
