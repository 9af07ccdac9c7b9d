"""Numbers and a target to reach with each of them once: the family `countdown`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.tasks.families.generated import Asking, Item, pick
from burnish.tasks.families.spec import CountdownSpec
from burnish.tasks.task import Task

_LEVELS = {1: (3, 20, "+-"), 2: (3, 20, "+-*"), 3: (4, 20, "+-*"), 4: (4, 50, "+-*/")}
"""Level: how many numbers, the largest there can be, and the operations."""

_LARGEST = 999
"""The largest target, and what no step on the way to it goes beyond."""


@dataclass(frozen=True)
class Countdown:
    """The numbers in the order in which they are shown, the target, and an expression that reaches it."""

    numbers: tuple[int, ...]
    target: int
    solution: str


def _step(a: int, sign: str, b: int) -> int | None:
    """What comes out; None for what is not exact, not positive or too large."""
    if sign == "/":
        return a // b if b > 1 and a % b == 0 else None
    value = {"+": a + b, "-": a - b, "*": a * b}[sign]
    return value if 0 < value <= _LARGEST else None


def draw_countdown(random: np.random.Generator, level: int) -> Countdown | None:
    """Numbers, and a target that a chain of operations on them reaches; None where some step does not come out even."""
    count, largest, signs = _LEVELS[level]
    numbers = [int(number) for number in random.integers(1, largest + 1, size=count)]
    chain = [pick(random, signs) for _ in range(count - 1)]
    value: int | None = numbers[0]
    for sign, number in zip(chain, numbers[1:], strict=True):
        value = None if value is None else _step(value, sign, number)
    if value is None:
        return None
    shown = tuple(numbers[place] for place in random.permutation(count))
    return Countdown(shown, value, expression(numbers, chain))


def expression(numbers: list[int], chain: list[str]) -> str:
    """The operations carried out from left to right, with the brackets that this takes.

    Neighbouring additions and subtractions are put in one order (what is added first, larger numbers first), and so
    are the factors of a product of numbers: of the many ways to write a solution this is one.
    """
    text, sums = "", [(1, str(numbers[0]), numbers[0])]
    for sign, number in zip(chain, numbers[1:], strict=True):
        if sign in "+-":
            sums.append((1 if sign == "+" else -1, str(number), number))
            continue
        if len(sums) == 1 and sign == "*" and sums[0][1].isdigit():
            text = "*".join(map(str, sorted((sums[0][2], number), reverse=True)))
        else:
            text = f"({_sum(sums)}){sign}{number}" if len(sums) > 1 else f"{sums[0][1]}{sign}{number}"
        sums = [(1, text, _LARGEST)]
    return _sum(sums)


def _sum(terms: list[tuple[int, str, int]]) -> str:
    ordered = sorted(terms, key=lambda term: (-term[0], -term[2]))
    return "".join(("+" if sign > 0 else "-") + text for sign, text, _ in ordered).removeprefix("+")


def question(item: Countdown, *, short: bool = False) -> str:
    """What is asked: a sentence, or with `short` numbers and target, `3 7 19=23`."""
    if short:
        return f"{' '.join(map(str, item.numbers))}={item.target}"
    numbers = ", ".join(map(str, item.numbers[:-1])) + f" and {item.numbers[-1]}"
    return (
        f"Write an expression that equals {item.target}, with each of the numbers {numbers} exactly once and no other, "
        "and with + - * / and brackets as you need them. Answer with the expression only."
    )


def countdown_tasks(
    spec: CountdownSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (an expression), level, numbers, target.

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item | None:
        item = draw_countdown(random, level)
        return item and Item(f"{sorted(item.numbers)} {item.target}", "", item)

    def written(item: Countdown) -> tuple[str, str, dict[str, Any]]:
        columns = {"numbers": list(item.numbers), "target": item.target}
        return question(item, short=short), item.solution, columns

    return Asking(spec, "countdown", seed, chat, system, demonstrations).tasks(draw, written)
