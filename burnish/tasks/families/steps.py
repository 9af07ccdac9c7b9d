"""The steps that the functions of the family `programs` are made of: in words, in symbols, as Python, and carried out.

The Python text of a step and what `do` computes are written down apart; a test runs the one against the other.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.tasks.families.generated import pick
from burnish.tasks.families.spec import Takes

Value = Any
"""A whole number, a text, or a list of whole numbers."""


@dataclass(frozen=True)
class Kind:
    """A kind of step. In its texts {k} and {j} stand for what it is drawn with, {x} for what it is done to."""

    words: str
    short: str
    code: str
    do: Callable[..., Value]
    gives: Takes | None = None
    """The type of its result; absent: that of what it is done to."""
    k: Sequence[Any] = ()
    """What k is drawn from, with equal chance; empty: there is none. The same for j."""
    j: Sequence[Any] = ()

    @property
    def atomic(self) -> bool:
        """Whether its code may stand before an operator, a dot or a bracket without brackets around it."""
        return not any(f" {sign} " in self.code for sign in OPERATORS) or self.code.startswith("[")


OPERATORS = ("+", "-", "*", "//", "%", "**", ">", "==")

_SMALL, _LARGE = range(2, 21), range(1, 100)
_LETTERS = string.ascii_lowercase

_NUMBER = (
    Kind("add {k}", "+{k}", "{x} + {k}", lambda x, k: x + k, k=_LARGE),
    Kind("subtract {k}", "-{k}", "{x} - {k}", lambda x, k: x - k, k=_LARGE),
    Kind("multiply by {k}", "*{k}", "{x} * {k}", lambda x, k: x * k, k=_SMALL),
    Kind("divide by {k} and round down", "/{k}", "{x} // {k}", lambda x, k: x // k, k=_SMALL),
    Kind("take the remainder after division by {k}", "%{k}", "{x} % {k}", lambda x, k: x % k, k=_SMALL),
    Kind("square it", "sq", "{x} ** 2", lambda x: x**2),
    Kind("take the absolute value", "abs", "abs({x})", abs),
)
_PAIR = (
    Kind("add a and b", "a+b", "a + b", lambda x: x[0] + x[1], "number"),
    Kind("subtract b from a", "a-b", "a - b", lambda x: x[0] - x[1], "number"),
    Kind("multiply a and b", "a*b", "a * b", lambda x: x[0] * x[1], "number"),
    Kind("take the larger of a and b", "max", "max(a, b)", max, "number"),
    Kind("take the smaller of a and b", "min", "min(a, b)", min, "number"),
    Kind("add {k} times a to b", "{k}a+b", "{k} * a + b", lambda x, k: k * x[0] + x[1], "number", k=_SMALL),
    Kind("subtract {k} times b from a", "a-{k}b", "a - {k} * b", lambda x, k: x[0] - k * x[1], "number", k=_SMALL),
)
_TEXT = (
    Kind("turn it into upper case", "up", "{x}.upper()", lambda x: x.upper()),
    Kind("reverse it", "rev", "{x}[::-1]", lambda x: x[::-1]),
    Kind("keep the first {k} characters", "<{k}", "{x}[:{k}]", lambda x, k: x[:k], k=range(2, 9)),
    Kind("keep the last {k} characters", ">{k}", "{x}[-{k}:]", lambda x, k: x[-k:], k=range(2, 9)),
    Kind("remove the first {k} characters", "cut{k}", "{x}[{k}:]", lambda x, k: x[k:], k=range(2, 9)),
    Kind("repeat it {k} times", "x{k}", "{x} * {k}", lambda x, k: x * k, k=range(2, 10)),
    Kind("replace each '{k}' by '{j}'", "{k}~{j}", "{x}.replace('{k}', '{j}')", lambda x, k, j: x.replace(k, j),
         k=_LETTERS, j=_LETTERS),
    Kind("append '{k}{j}'", ".{k}{j}", "{x} + '{k}{j}'", lambda x, k, j: x + k + j, k=_LETTERS, j=_LETTERS),
    Kind("take its length", "len", "len({x})", len, "number"),
    Kind("count how often '{k}' occurs", "#{k}", "{x}.count('{k}')", lambda x, k: x.count(k), "number", k=_LETTERS),
)  # fmt: skip
_LIST = (
    Kind("sort it", "sort", "sorted({x})", sorted),
    Kind("reverse it", "rev", "{x}[::-1]", lambda x: x[::-1]),
    Kind("keep the first {k} elements", "<{k}", "{x}[:{k}]", lambda x, k: x[:k], k=range(1, 5)),
    Kind("keep the last {k} elements", ">{k}", "{x}[-{k}:]", lambda x, k: x[-k:], k=range(1, 5)),
    Kind("multiply each element by {k}", "*{k}", "[v * {k} for v in {x}]", lambda x, k: [v * k for v in x], k=_SMALL),
    Kind("add {k} to each element", "+{k}", "[v + {k} for v in {x}]", lambda x, k: [v + k for v in x], k=_LARGE),
    Kind("keep the elements greater than {k}", "gt{k}", "[v for v in {x} if v > {k}]",
         lambda x, k: [v for v in x if v > k], k=range(21)),
    Kind("keep the even elements", "even", "[v for v in {x} if v % 2 == 0]", lambda x: [v for v in x if v % 2 == 0]),
    Kind("take the sum", "sum", "sum({x})", sum, "number"),
    Kind("take the largest element", "max", "max({x})", lambda x: max(x, default=None), "number"),
    Kind("take the smallest element", "min", "min({x})", lambda x: min(x, default=None), "number"),
    Kind("take its length", "len", "len({x})", len, "number"),
)  # fmt: skip

KINDS: dict[Takes, tuple[Kind, ...]] = {"number": _NUMBER, "pair": _PAIR, "text": _TEXT, "list": _LIST}
"""What can be done to each type."""


@dataclass(frozen=True)
class Step:
    """A kind of step with its k and j."""

    kind: Kind
    drawn: tuple[Any, ...]

    def filled(self, text: str) -> str:
        """A text of the kind with k and j put in; {x} stays."""
        for name, value in zip(("{k}", "{j}"), self.drawn, strict=False):
            text = text.replace(name, str(value))
        return text

    def do(self, value: Value) -> Value:
        """The value after this step; None where there is none, such as the largest of nothing."""
        return None if value is None else self.kind.do(value, *self.drawn)


def draw_step(random: np.random.Generator, takes: Takes) -> Step:
    """A step that can be done to a value of the type."""
    kind = pick(random, KINDS[takes])
    return Step(kind, tuple(pick(random, among) for among in (kind.k, kind.j) if among))


def expression(steps: Sequence[Step], argument: str) -> str:
    """The steps as one Python expression of the argument."""
    code, atomic = argument, True
    for step in steps:
        inner = code if atomic or _bracketed(step.kind.code) else f"({code})"
        code, atomic = step.filled(step.kind.code).replace("{x}", inner), step.kind.atomic
    return code


def _bracketed(code: str) -> bool:
    """Whether what is put into the code stands between commas, brackets and words anyway."""
    return "({x})" in code or " in {x}" in code


def compact(code: str) -> str:
    """The code without the spaces that may go."""
    for sign in OPERATORS:
        code = code.replace(f" {sign} ", sign)
    return code.replace(", ", ",")
