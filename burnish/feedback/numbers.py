"""Numbers in the text of a model: found, read exactly, compared exactly.

A number is written with an optional sign, digits with or without thousands separators, decimals, an exponent. A sign
counts only where nothing stands before it that it could subtract from: the last number of "5-3" is 3, of "= -3" it is
-3. Only ASCII digits count, and a full stop at the end of a sentence is no decimal point.
"""

from __future__ import annotations

import re
from fractions import Fraction

_SIGN = r"(?:(?<![\w.)\]}%])(?P<sign>[-+\u2212])[$€£]?)?"
_WHOLE = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)"
_PLAIN = rf"(?:{_WHOLE}(?:\.[0-9]+)?|(?<![0-9.])\.[0-9]+)(?:[eE][-+]?[0-9]{{1,3}}(?![0-9]))?"
_NUMBER = re.compile(rf"{_SIGN}(?P<value>{_PLAIN})")
_RATIO = re.compile(rf"{_SIGN}(?P<value>{_WHOLE}\s?/\s?{_WHOLE}(?![0-9]|\.[0-9])|{_PLAIN})")
_LATEX_RATIO = re.compile(r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}")

_LONGEST = 300
"""Characters; a longer run of digits is no answer, and reading it exactly would cost more than it tells."""


def _value(match: re.Match[str]) -> Fraction | None:
    text = re.sub(r"[,\s]", "", match["value"])
    if len(text) > _LONGEST:
        return None
    try:
        value = Fraction(text)
    except ZeroDivisionError:
        return None
    return -value if match["sign"] in ("-", "\u2212") else value


def _prepared(text: str, fractions: bool) -> tuple[re.Pattern[str], str]:
    text = text.replace("{,}", ",")  # the thousands separator of LaTeX
    return (_RATIO, _LATEX_RATIO.sub(r"\1/\2", text)) if fractions else (_NUMBER, text)


def last_number(text: str, *, fractions: bool = False) -> Fraction | None:
    """The last number in a text; None when there is none, or none that can be read (a zero denominator)."""
    pattern, text = _prepared(text, fractions)
    last = None
    for last in pattern.finditer(text):  # noqa: B007 - only the last one is wanted
        pass
    return None if last is None else _value(last)


def only_number(text: str, *, fractions: bool = False) -> Fraction | None:
    """The number that a text consists of, white space around it aside; None when there is anything else."""
    pattern, text = _prepared(text, fractions)
    match = pattern.fullmatch(text.strip())
    return None if match is None else _value(match)
