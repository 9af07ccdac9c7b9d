"""An expression of given numbers: read by a small parser of our own, computed exactly. Nothing is evaluated.

    sum     = product {("+" | "-") product}
    product = factor {("*" | "/") factor}
    factor  = {"+" | "-"} (number | "(" sum ")")

No text costs more than its length: a number that is longer than any given one is not converted, reading ends when more
numbers than the given ones have come, and brackets nest at most `DEEPEST` deep.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction

DEEPEST = 100
"""Brackets within brackets, and signs in a row."""

LONGEST_NUMBER = 15
"""Digits of a number."""

MOST_NUMBERS = 100

_TOKEN = re.compile(r"\s*(?:([0-9]+)|([-+*/()=]))")
_SIGNS = str.maketrans({"\u00d7": "*", "\u22c5": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-"})


class Unsound(Exception):  # noqa: N818 - what a candidate wrote, no error of the program
    """The text is no expression that reaches the target. `kind` names why (docs/verifiers.md)."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


class _Reader:
    """Tokens of a text one by one, the numbers counted."""

    def __init__(self, text: str, most: int) -> None:
        self.tokens = self._tokens(text.translate(_SIGNS).strip().removesuffix("."))
        self.most = most
        self.numbers: list[int] = []
        self.depth = 0
        self.next = next(self.tokens, "")

    def _tokens(self, text: str) -> Iterator[str]:
        place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise Unsound("broken_expression", f"{text[place : place + 20]!r} is no part of an expression")
            yield found[1] or found[2]
            place = found.end()

    def take(self) -> str:
        token, self.next = self.next, next(self.tokens, "")
        return token

    def number(self) -> Fraction:
        digits = self.take()
        if len(digits) > LONGEST_NUMBER:
            raise Unsound("number_too_large", f"a number of {len(digits):,} digits")
        self.numbers.append(int(digits))
        if len(self.numbers) > self.most:
            raise Unsound("wrong_numbers", f"more than the {self.most} numbers that are given")
        return Fraction(self.numbers[-1])


def _sum(reader: _Reader) -> Fraction:
    value = _product(reader)
    while reader.next in ("+", "-"):
        plus = reader.take() == "+"
        term = _product(reader)
        value = value + term if plus else value - term
    return value


def _product(reader: _Reader) -> Fraction:
    value = _factor(reader)
    while reader.next in ("*", "/"):
        times = reader.take() == "*"
        factor = _factor(reader)
        if not times and factor == 0:
            raise Unsound("division_by_zero", "something is divided by what comes to 0")
        value = value * factor if times else value / factor
    return value


def _factor(reader: _Reader) -> Fraction:
    sign, signs = 1, 0
    while reader.next in ("+", "-"):
        sign, signs = sign if reader.take() == "+" else -sign, signs + 1
        if signs > DEEPEST:
            raise Unsound("too_deep", f"more than {DEEPEST} signs in a row")
    if reader.next.isdigit():
        return sign * reader.number()
    if reader.next != "(":
        raise Unsound("broken_expression", f"{reader.next or 'the end'!r} where a number or a bracket should stand")
    reader.take()
    reader.depth += 1
    if reader.depth > DEEPEST:
        raise Unsound("too_deep", f"brackets nest more than {DEEPEST} deep")
    value = _sum(reader)
    if reader.take() != ")":
        raise Unsound("broken_expression", "a bracket is not closed")
    reader.depth -= 1
    return sign * value


def computed(text: str, numbers: Sequence[int], *, every: bool = True) -> Fraction:
    """The value of an expression of the given numbers, each used once, or with `every` off at most once.

    `= value` may follow or `value =` stand before, and must be right. Raises Unsound for anything else.

    >>> computed("(25 - 3) * 2 = 44", [2, 3, 25])
    Fraction(44, 1)
    """
    reader = _Reader(text, len(numbers))
    value = _sum(reader)
    written = reader.numbers
    if reader.next == "=":
        reader.take()
        reader.numbers = []
        other = _sum(reader)
        if len(reader.numbers) > 1:  # the expression stands behind: what stands before must be a number alone
            written, reader.numbers = reader.numbers, written
        if len(reader.numbers) > 1:
            raise Unsound("broken_expression", "a number alone should stand on one side of the equals sign")
        if other != value:
            raise Unsound("wrong", "what stands behind the equals sign is not what stands before it")
    if reader.next:
        raise Unsound("broken_expression", f"{reader.next!r} where the expression should end")
    used, given = Counter(written), Counter(numbers)
    if used - given or (every and given - used):
        told = "each of the numbers must be used once" if every else "each of the numbers may be used once"
        raise Unsound("wrong_numbers", f"{told}, and no other")
    return value
