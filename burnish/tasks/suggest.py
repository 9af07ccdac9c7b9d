"""What a misspelt name was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A clause to end an error message with: the nearest known name, or the list of all of them.

    Returns for instance "did you mean 'answer'?" or "there are: prompt, answer".
    """
    names = [str(k) for k in known]
    folded = {k.lower(): k for k in names}
    near = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    if near:
        return f"did you mean {folded[near[0]]!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"
