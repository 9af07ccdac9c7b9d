"""Python functions to write, judged by tests that are not shown: the family `programs`.

A function takes a number, two numbers, a text or a list, and does as many steps to it as its level says. Its tests call
it with the arguments of `CASES`; what comes out there is what the function *is*: functions that agree on all of them
are one item. None returns the same for all of them, none returns an argument unchanged, and no step is without effect,
so neither a constant nor the identity passes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.tasks.families.generated import Asking, Item, pick
from burnish.tasks.families.spec import ProgramsSpec, Takes
from burnish.tasks.families.steps import Step, compact, draw_step, expression
from burnish.tasks.task import Task

_PANGRAMS = ("The quick brown fox jumps over the lazy dog", "pack my box with five dozen liquor jugs", "Banana kayak",
             "mississippi level up", "Zigzag vex", "sphinx of black quartz, judge my vow")  # fmt: skip
CASES: dict[Takes, tuple[Any, ...]] = {
    "number": (-75, -7, 0, 3, 8, 20, 41, 117),
    "pair": ((3, 5), (5, 3), (-4, 7), (0, 2), (9, 9), (12, -5), (61, 14)),
    "text": _PANGRAMS,
    "list": ([3, 1, 2], [5, 5, 1, 18, 12], [-2, 7, 4, 0, 9, 21], [10, 6], [4, -1, 12, 3, 16, 8, 25], [20, 11, 15, 30]),
}
"""What functions are tested with. The letters of the texts include every one that a step may ask for."""

ARGUMENTS: dict[Takes, str] = {"number": "n", "pair": "a, b", "text": "s", "list": "x"}
_CALLED: dict[Takes, str] = {
    "number": "a whole number n", "pair": "two whole numbers a and b", "text": "a text s",
    "list": "a list x of whole numbers",
}  # fmt: skip


@dataclass(frozen=True)
class Function:
    """What is asked for: the steps, and what comes out for each of the cases."""

    takes: Takes
    steps: tuple[Step, ...]
    outputs: tuple[Any, ...]


def draw_function(random: np.random.Generator, takes: Takes, steps: int) -> Function | None:
    """A function of so many steps; None where it is no good task."""
    cases, drawn = CASES[takes], []
    values, kind = list(cases), takes
    for _ in range(steps):
        step = draw_step(random, kind)
        before, values = values, [step.do(value) for value in values]
        if values == before or None in values:
            return None
        drawn.append(step)
        kind = step.kind.gives or kind
    arguments = [list(column) for column in (zip(*cases, strict=True) if takes == "pair" else (cases,))]
    if values in arguments or all(value == values[0] for value in values):
        return None
    return Function(takes, tuple(drawn), tuple(values))


def program(function: Function, *, short: bool = False) -> str:
    """The function as Python: a `def`, or with `short` a lambda that is named f."""
    argument = ARGUMENTS[function.takes]
    code = expression(function.steps, argument)
    if short:
        return f"f=lambda {compact(argument)}:{compact(code)}"
    return f"def f({argument}):\n    return {code}"


def question(function: Function, *, short: bool = False) -> str:
    """What is asked: a sentence, or with `short` the steps in symbols, `f(s):rev,<3`."""
    argument = ARGUMENTS[function.takes]
    if short:
        return f"f({compact(argument)}):" + ",".join(step.filled(step.kind.short) for step in function.steps)
    words = ", then ".join(step.filled(step.kind.words) for step in function.steps)
    return (
        f"Write a Python function f({argument}) that takes {_CALLED[function.takes]} and returns the result of this: "
        f"{words}. Answer with one block of Python code."
    )


def tests_of(function: Function) -> dict[str, Any]:
    """The tests in the form that the kind `code` takes: arguments and results."""
    cases = CASES[function.takes]
    inputs = [list(case) if function.takes == "pair" else [case] for case in cases]
    return {"inputs": inputs, "outputs": list(function.outputs), "fn_name": "f"}


def programs_tasks(
    spec: ProgramsSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (a program), level, takes, tests.

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item | None:
        takes = pick(random, spec.takes)
        function = draw_function(random, takes, level)
        return function and Item(json.dumps([takes, function.outputs]), "", function)

    def written(function: Function) -> tuple[str, str, dict[str, Any]]:
        code = program(function, short=short)
        answer = code if short else f"```python\n{code}\n```"
        return question(function, short=short), answer, {"takes": function.takes, "tests": tests_of(function)}

    return Asking(spec, "programs", seed, chat, system, demonstrations).tasks(draw, written)
