"""How many sentences a text has, by its punctuation."""

from __future__ import annotations

import re

_END = re.compile(r"[.!?…]+[\"')\]”’]*(?=\s|$)")
_ABBREVIATIONS = {
    "mr", "mrs", "ms", "dr", "prof", "st", "jr", "sr", "vs", "etc", "inc", "ltd", "co", "no", "fig", "eq", "al", "cf",
    "approx", "dept", "est", "e.g", "i.e", "a.m", "p.m", "u.s", "u.k", "ph.d",
}  # fmt: skip


def count_sentences(text: str) -> int:
    """Sentences end with . ! ? or … before white space, not after an abbreviation or an initial.

    What follows the last end counts as one more, when there is a letter or a digit in it.

    >>> count_sentences("Dr. Ada paid $3.50. Why? J. S. Bach asked...  He left")
    4
    """
    count, start = 0, 0
    for end in _END.finditer(text):
        before = text[max(start, end.start() - 20) : end.start()].split()
        word = before[-1].lstrip("(\"'") if before else ""
        initial = len(word) == 1 and word.isalpha() and word.isupper()
        if end[0].startswith(".") and len(end[0]) == 1 and (initial or word.lower() in _ABBREVIATIONS):
            continue
        if re.search(r"\w", text[start : end.end()]):
            count += 1
        start = end.end()
    return count + (re.search(r"\w", text[start:]) is not None)
