"""Where results for programs go: the process's output, which nothing else then writes to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

_apart: TextIO | None = None


def results() -> TextIO:
    """The stream for results: the process's output, also where `results_apart` has turned everything else away."""
    return sys.stdout if _apart is None else _apart


@contextmanager
def results_apart() -> Iterator[None]:
    """While the block runs, what reward functions, libraries and their child processes print goes to the error output.

    Only what is written to `results()` reaches the output, so that a program can read it line by line.
    """
    global _apart
    shown = sys.stdout
    if shown is None or shown is not sys.__stdout__:  # closed, or somebody listens in this process
        _apart = shown
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _apart = None
        return
    shown.flush()
    with os.fdopen(os.dup(shown.fileno()), "w", encoding=shown.encoding, errors=shown.errors) as _apart:
        os.dup2(sys.stderr.fileno(), shown.fileno())
        try:
            with redirect_stdout(sys.stderr):
                yield
        finally:
            _apart.flush()
            os.dup2(_apart.fileno(), shown.fileno())
    _apart = None
