"""The errors a user meets. Each says what is wrong, where, and how to mend it."""

from __future__ import annotations


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
