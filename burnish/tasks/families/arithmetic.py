"""Arithmetic on two whole numbers: a family whose train and held-out items share no pair of operands."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.randomness import counter_uniform, stable_hash
from burnish.tasks.families.spec import ArithmeticSpec, Operation
from burnish.tasks.task import Task

HELDOUT_SHARE = 0.2
"""Share of the operand pairs that training never sees. A constant and not an option: two specs with different shares
would overlap."""

CHAT_QUESTION = "What is {a} {op} {b}? Answer with the number only."
TEXT_QUESTION = "{a}{op}{b}="

_DRAWS = stable_hash("burnish.tasks.families.arithmetic/draws")
_SPLIT = stable_hash("burnish.tasks.families.arithmetic/split")
_PATIENCE = 40
"""Chunks of draws in a row without anything new before the family counts as exhausted; with chunks of four times
the wanted count, fewer than one exhaustible family in a million is given up too early."""

Item = tuple[Operation, int, int, int]
"""Operation, first operand, second operand, number of digits."""


def heldout(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Whether unordered operand pairs belong to the held-out split, broadcast; by a hash, so alike for every spec."""
    return counter_uniform(_SPLIT, np.minimum(a, b), np.maximum(a, b)) < HELDOUT_SHARE


def _draws(spec: ArithmeticSpec, seed: int, start: int, count: int) -> Iterator[Item]:
    """Draws `start : start + count` of the seed's endless sequence, those of the other split left out."""
    index = np.arange(start, start + count)
    digits = np.array(spec.digits)[_choice(seed, index, 0, len(spec.digits))]
    operation = _choice(seed, index, 1, len(spec.operations))
    low = np.where(digits == 1, 0, 10 ** (digits - 1))
    width = 10**digits - low
    a = low + _choice(seed, index, 2, width)
    b = low + _choice(seed, index, 3, width)
    wanted = heldout(a, b) == (spec.split == "heldout")
    for i in np.flatnonzero(wanted):
        yield spec.operations[operation[i]], int(a[i]), int(b[i]), int(digits[i])


def _choice(
    seed: int, index: npt.NDArray[np.int64], field: int, count: int | npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    return np.floor(counter_uniform(seed, _DRAWS, index, field) * count).astype(np.int64)


def generate(spec: ArithmeticSpec, seed: int) -> list[Item]:
    """The first `spec.count` distinct items of the seed's sequence; a larger count only appends to it.

    For a commutative operation, and for a difference that may not be negative, the order of the operands makes no new
    item. Raises InputError when the family does not hold that many.
    """
    items: dict[tuple[Operation, int, int], Item] = {}
    chunk = min(max(4096, 4 * spec.count), 1 << 16)  # a count that the family does not hold must not fill the memory
    start, barren = 0, 0
    while len(items) < spec.count and barren < _PATIENCE:
        before = len(items)
        for operation, a, b, digits in _draws(spec, seed, start, chunk):
            first, second = (max(a, b), min(a, b)) if operation == "-" and not spec.negative else (a, b)
            ordered = operation == "-" and spec.negative
            key = (operation, first, second) if ordered else (operation, min(a, b), max(a, b))
            items.setdefault(key, (operation, first, second, digits))
            if len(items) == spec.count:
                break
        start += chunk
        barren = barren + 1 if len(items) == before else 0
    if len(items) < spec.count:
        raise InputError(
            f"data.family.count: {spec.count} items wanted, but the {spec.split} split of arithmetic with operations "
            f"{' '.join(spec.operations)} and digits {', '.join(map(str, spec.digits))} holds only {len(items)}; "
            "lower count, or add operations or digits"
        )
    return list(items.values())


def result(operation: Operation, a: int, b: int) -> int:
    """The exact answer."""
    return {"+": a + b, "-": a - b, "*": a * b}[operation]


def arithmetic_tasks(
    spec: ArithmeticSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks: chat messages, or prompt texts with `chat=False`.

    With `demonstrations` each carries its answer as what to imitate. Columns: prompt, answer, operation, a, b, digits.
    """
    question = spec.question or (CHAT_QUESTION if chat else TEXT_QUESTION)
    system_message = ({"role": "system", "content": system},) if system else ()
    tasks = []
    for operation, a, b, digits in generate(spec, seed):
        prompt = question.replace("{a}", str(a)).replace("{op}", operation).replace("{b}", str(b))
        answer = str(result(operation, a, b))
        shown = ({"role": "assistant", "content": answer},) if chat else answer
        tasks.append(
            Task(
                messages=(*system_message, {"role": "user", "content": prompt}) if chat else None,
                prompt=None if chat else prompt,
                answer=answer,
                demonstration=shown if demonstrations else None,
                columns={"prompt": prompt, "answer": answer, "operation": operation, "a": a, "b": b, "digits": digits},
                domain="arithmetic",
                seed=seed,
                difficulty=float(digits),
            )
        )
    return tasks
