"""Checks that go wrong in a worker process, for benchmarks/verifiers.py. Lean, as all that workers import."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from burnish.feedback.checks import mathematics
from burnish.feedback.checks.outcome import Found


def killed(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """Ended by SIGKILL, which nobody can tell from one that came from outside."""
    begin()
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def stopped(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """Stands still, as on a machine that gives it no processor."""
    begin()
    os.kill(os.getpid(), signal.SIGSTOP)
    return mathematics.check(job, begin)


def raising(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """A fault of the check itself."""
    begin()
    raise LookupError("injected")
