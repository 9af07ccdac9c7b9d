"""The errors a user meets. Each says what is wrong, where, and how to mend it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class BurnishError(Exception):
    """Base of every error Burnish raises on purpose. `exit_status` is what the command line returns."""

    exit_status = 1


class InputError(BurnishError):
    """Wrong usage or wrong input: a path, a key, a row. The message names it and the fix."""

    exit_status = 2


class RunError(BurnishError):
    """A run or a check that failed for a reason other than its input."""


class PromiseError(BurnishError):
    """Something asked for would break a promise (docs/promises.md); the message names the promise."""


class Note(UserWarning):
    """Something that a user should know and that is no error."""


def note(text: str) -> None:
    """Warn of something, at the line of the user's that led to it. A run and the command line show it as a message."""
    level = users = 2  # 1 would be the line below, 2 is the line that called this function
    frame = sys._getframe(1)
    while frame is not None:
        level += 1
        if str(frame.f_globals.get("__name__")).partition(".")[0] == "burnish":
            users = level
        frame = frame.f_back
    warnings.warn(text, Note, stacklevel=users)


@contextmanager
def notes_told(tell: Callable[[str], None]) -> Iterator[None]:
    """Hand the text of each note to `tell` while the block runs, once for each text."""
    told: set[str] = set()
    with warnings.catch_warnings():
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if not issubclass(category, Note):
                shown(message, category, *place, **more)
            elif str(message) not in told:
                told.add(str(message))
                tell(str(message))

        warnings.showwarning = show
        yield
