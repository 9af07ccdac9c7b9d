"""Checks that go wrong, each in its own way. They run in worker processes."""

from __future__ import annotations

import importlib
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from burnish.feedback.checks.outcome import Found, Unjudged

Begin = Callable[[], None]


def right(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    return Found(1.0, "", str(job.get("say", "")))


def spins(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    while True:
        pass


def spins_over_the_key(job: dict[str, Any], begin: Begin) -> Found:
    while True:
        pass


def eats(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    return Found(float(len([bytes(1 << 28) for _ in range(4)])))


def eats_over_the_key(job: dict[str, Any], begin: Begin) -> Found:
    return Found(float(len([bytes(1 << 28) for _ in range(4)])))


def nests(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    return nests(job, lambda: None)


def crashes(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
    return Found(1.0)


def leaves(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    os._exit(0)


def raises(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    raise KeyError("session")


def returns_no_number(job: dict[str, Any], begin: Begin) -> Found:
    return Found("high")  # type: ignore[arg-type]


def returns_nan(job: dict[str, Any], begin: Begin) -> Found:
    return Found(float("nan"))


def returns_nothing(job: dict[str, Any], begin: Begin) -> None:
    begin()


def exits(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    raise SystemExit(0)


def refuses(job: dict[str, Any], begin: Begin) -> Found:
    raise Unjudged("bad_key", "no key")


def lacks(job: dict[str, Any], begin: Begin) -> Found:
    return Found(float(importlib.import_module("no_such_library") is None))


def sleeps(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    time.sleep(600)
    return Found(1.0)


def shouts(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    print("x" * 1000)
    os.write(2, b"y" * 1000)
    return Found(0.0, "wrong", "z" * (2 << 20))


def is_killed(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
    return Found(1.0)


def tells(job: dict[str, Any], begin: Begin) -> Found:
    begin()
    loaded = {module.partition(".")[0] for module in sys.modules}
    said = {
        "pid": os.getpid(), "threads": threading.active_count(), "loaded": sorted(loaded),
        "files": resource.getrlimit(resource.RLIMIT_FSIZE)[0], "user": "__main__" in job,
    }  # fmt: skip
    return Found(0.0, "said", repr(said))
