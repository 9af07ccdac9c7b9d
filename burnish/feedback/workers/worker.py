"""A worker: takes one job after another, each within its limits of processor time and memory.

The kernel measures the time that the worker computes, not the time on the wall, so that a busy machine makes no right
answer wrong; when it is used up the kernel ends the process, whatever the code in it is doing. A job has two parts:
what belongs to the task (reading the right answer), then, from `begin` on, the candidate's. Whoever's part was being
worked on is to blame for what happens.
"""

from __future__ import annotations

import importlib
import math
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from burnish.feedback.checks.outcome import Found, Unjudged
from burnish.feedback.workers.frames import receive, send

Check = Callable[[dict[str, Any], Callable[[], None]], Found]
"""A check: `check(job, begin)`; it calls `begin` when it turns from the task to the candidate's text."""

NUMBER = 4
"""Bytes of a job's number, which a worker writes to its pipe when it turns to the candidate's text. Who finds the
worker dead reads the last one; nobody is woken for it before."""

CANDIDATES = {
    MemoryError: ("memory_limit", "checking the answer took more memory than the limit"),
    RecursionError: ("too_deep", "the answer is nested too deeply"),
    OverflowError: ("number_too_large", "a number in the answer is too large"),
}
"""What a candidate's text alone can cause -> kind and reason."""


def serve(connection: socket.socket, progress: int) -> None:
    """Answer jobs until the other side closes the connection; `progress` is a pipe to say how far it has come."""
    _be_harmless()
    used = _Used()
    while (message := receive(connection)) is not None:
        reply = _answered(message, progress, used)
        _limit(None, None)
        send(connection, reply)


def _be_harmless() -> None:
    """No files are written, no core is dumped, nothing is said but through the connection."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    os.close(nothing)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    for number in (signal.SIGPROF, signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)


def _limit(seconds: float | None, memory: int | None) -> None:
    """Limits from now on: processor time in seconds, bytes of memory in all. None: no limit."""
    signal.setitimer(signal.ITIMER_PROF, seconds or 0.0)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = hard if memory is None else memory
    if hard != resource.RLIM_INFINITY and soft > hard:
        soft = hard
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Used:
    """How many bytes of address space are in use."""

    def __init__(self) -> None:
        self._page = os.sysconf("SC_PAGE_SIZE")
        self._file = os.open("/proc/self/statm", os.O_RDONLY) if sys.platform == "linux" else None

    def bytes(self) -> int:
        """Where the system does not tell, it does not keep the limit either: then 4 GiB."""
        return 1 << 32 if self._file is None else int(os.pread(self._file, 40, 0).split()[0]) * self._page


def _answered(message: dict[str, Any], progress: int, used: _Used) -> dict[str, Any]:
    begun = False

    def begin() -> None:
        nonlocal begun
        begun = True
        os.write(progress, message["number"].to_bytes(NUMBER, "big"))
        signal.setitimer(signal.ITIMER_PROF, message["seconds"])  # the candidate's time starts here

    try:
        check = _check(message["check"])
        _limit(message["seconds"], used.bytes() + message["memory"])
        found = check(message["job"], begin)
        value = float(found.value)
        if not math.isfinite(value):
            raise ValueError(f"the check returned {value}")
    except Unjudged as error:
        return {"missing": error.kind, "reason": error.reason}
    except ImportError as error:
        return {"missing": "library_missing", "reason": f"{error}; pip install 'burnish[tasks]'"}
    except BaseException as error:  # noqa: BLE001 - told, never swallowed; even SystemExit must not end the worker
        return _blamed(error, begun)
    return {"value": value, "kind": found.kind, "reason": found.reason}


def _blamed(error: BaseException, begun: bool) -> dict[str, Any]:
    for kind, (name, reason) in CANDIDATES.items():
        if isinstance(error, kind):
            if begun:
                return {"value": 0.0, "kind": name, "reason": reason}
            return {"missing": "key_limit", "reason": f"{name} while reading the right answer"}
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = "".join(f" ({Path(frame.filename).name}:{frame.lineno})" for frame in last)
    return {"missing": "verifier_raised", "reason": f"raised {type(error).__name__}: {str(error)[:300]}{where}"}


@cache
def _check(name: str) -> Check:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)
