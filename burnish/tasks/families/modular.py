"""Chained arithmetic modulo a number, each step written as an equation: the family `modular`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.tasks.families.generated import Asking, Item, pick
from burnish.tasks.families.spec import ModularSpec
from burnish.tasks.task import Task

STEPS = 3
"""Steps of a chain for each level."""

_SIGNS = "+-*"
_WORDS = {"+": "add {}", "-": "subtract {}", "*": "multiply by {}"}


@dataclass(frozen=True)
class Chain:
    """A number and what is done to it, one step after the other, modulo `modulus`."""

    modulus: int
    start: int
    steps: tuple[tuple[str, int], ...]

    @property
    def values(self) -> list[int]:
        """The remainder after each step, 0 to modulus - 1."""
        found, value = [], self.start
        for sign, operand in self.steps:
            value = {"+": value + operand, "-": value - operand, "*": value * operand}[sign] % self.modulus
            found.append(value)
        return found

    @property
    def equations(self) -> list[str]:
        """One for each step: `8*2=5`, modulo 11."""
        before = [self.start, *self.values]
        return [f"{a}{sign}{b}={c}" for a, (sign, b), c in zip(before, self.steps, before[1:], strict=False)]


def draw_chain(random: np.random.Generator, modulus: int, steps: int) -> Chain:
    """A chain of so many steps. No step adds or subtracts 0 or multiplies by less than 2, so each does something."""
    signs = [pick(random, _SIGNS if modulus > 2 else "+-") for _ in range(steps)]
    drawn = tuple((sign, int(random.integers(2 if sign == "*" else 1, modulus))) for sign in signs)
    return Chain(modulus, int(random.integers(modulus)), drawn)


def question(chain: Chain, *, short: bool = False) -> str:
    """What is asked: sentences, or with `short` the modulus and the chain, `m11:3+5*2`, read from left to right."""
    if short:
        return f"m{chain.modulus}:{chain.start}" + "".join(f"{sign}{operand}" for sign, operand in chain.steps)
    words = ", then ".join(_WORDS[sign].format(operand) for sign, operand in chain.steps)
    example = chain.modulus + 1, chain.modulus  # no remainder and no operand is as large, so that it is no answer
    return (
        f"Start with {chain.start} and work modulo {chain.modulus}: {words}. Write each step on a line of its own as "
        f"an equation with its remainder, in the form of {example[0]}+{example[1]}={sum(example) % chain.modulus}, and "
        "nothing else."
    )


def modular_tasks(
    spec: ModularSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (the equations, one a line), level, claims (the same in a list),
    result (the last remainder).

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item:
        chain = draw_chain(random, pick(random, spec.moduli), STEPS * level)
        return Item(question(chain, short=True), "", chain)

    def written(chain: Chain) -> tuple[str, str, dict[str, Any]]:
        equations = chain.equations
        columns = {"claims": equations, "result": chain.values[-1]}
        return question(chain, short=short), "\n".join(equations), columns

    return Asking(spec, "modular", seed, chat, system, demonstrations).tasks(draw, written)
