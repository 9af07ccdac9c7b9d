"""The claims of an answer, one on each line, against the right ones in their order. Linear in the text's length."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_MARK = re.compile(r"\s*(?:[-*\u2022]|[0-9]{1,4}[.)])\s+")
"""What may stand before an item of a list."""


def plain(claim: str) -> str:
    """A claim without what makes no difference: the mark of a list item, white space, case, a full stop at the end.

    >>> plain(" 2. Knight,  knave: Ada. ")
    'knight,knave:ada'
    """
    mark = _MARK.match(claim)
    return "".join(claim[mark.end() if mark else 0 :].split()).casefold().removesuffix(".")


@dataclass(frozen=True)
class Claims:
    """What is right of an answer's claims."""

    made: int
    expected: int
    right: int
    """Claims that are right at their place."""
    first_wrong: int | None
    """Place of the first claim, counted from 0, that is wrong, lacking or beyond the last; None where all are right."""
    final: bool
    """Whether the last claim made is the right last one."""
    text: str = ""
    """The first wrong claim as it stands; empty where it is lacking."""


def judged(text: str, expected: Sequence[Sequence[str]]) -> Claims:
    """The claims of a text against the right ones, for each of which several wordings may be given."""
    lines = [line for line in text.splitlines() if line.strip()]
    made = [plain(line) for line in lines]
    keys = [frozenset(map(plain, ways)) for ways in expected]
    right = [claim in ways for claim, ways in zip(made, keys, strict=False)]
    first = right.index(False) if False in right else min(len(made), len(keys))
    whole = first == len(made) == len(keys)
    return Claims(
        made=len(made),
        expected=len(keys),
        right=sum(right),
        first_wrong=None if whole else first,
        final=bool(made) and made[-1] in keys[-1],
        text=lines[first].strip()[:80] if first < len(lines) else "",
    )
