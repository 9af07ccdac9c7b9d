"""From a fork of the sandbox's first process to the candidate's program: nothing is left that it might use."""

from __future__ import annotations

import os
import resource
import signal
from dataclasses import dataclass
from typing import Any

from . import libc, seccomp, tree
from .cgroups import Cgroup

USER = 1000
"""The candidate's user and group inside."""

_FILTER = seccomp.program()


@dataclass(frozen=True)
class Setting:
    """What a sandbox was made with: its limits, whether root made it, its control group if there is one."""

    limits: dict[str, Any]
    root: bool
    cgroup: Cgroup | None


def become(setting: Setting, request: dict[str, Any], stdio: tuple[int, int, int], hidden: dict[str, bytes]) -> None:
    """Turn this process into the program that `request` names. Returns only by raising OSError.

    Its working directory is that of the first process, /work: a candidate may have closed it to itself since.
    """
    os.setsid()
    for target, source in enumerate(stdio):
        os.dup2(source, target)
    libc.keep_descriptors_from_programs()
    if hidden:
        tree.show_hidden(hidden)
    if setting.cgroup is not None:
        setting.cgroup.enter()
    _limit(setting)
    drop(setting)
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python
        signal.signal(ignored, signal.SIG_DFL)
    command = [os.fsencode(word) for word in request["command"]]
    os.execvpe(command[0], command, {os.fsencode(key): os.fsencode(value) for key, value in request["env"].items()})


def drop(setting: Setting) -> None:
    """Take on the candidate's user and give up every privilege, for good. Raises OSError."""
    if setting.root:
        os.setgroups([])  # an ordinary user may not; what is mounted is readable to all, and nothing is writable
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    libc.drop_capabilities()
    libc.prctl(libc.PR_SET_NO_NEW_PRIVS, 1, "prctl PR_SET_NO_NEW_PRIVS")
    if _FILTER is not None:
        seccomp.install(_FILTER)


def _limit(setting: Setting) -> None:
    limits = setting.limits
    own = 0 if setting.root else 1  # without root, the sandbox's first process has the same user
    seconds = int(limits["cpu_seconds"]) + 2  # of each process; the watch keeps the limit, for all together
    for kind, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, seconds),
        (resource.RLIMIT_FSIZE, limits["disk"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NPROC, limits["processes"] + own),
        (resource.RLIMIT_AS, limits["address_space"]),
    ):
        highest = resource.getrlimit(kind)[1]
        value = value if highest == resource.RLIM_INFINITY else min(value, highest)
        resource.setrlimit(kind, (value, value))
