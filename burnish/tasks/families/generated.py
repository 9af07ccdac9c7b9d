"""What the families with levels share: items as a function of a seed, split by what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from burnish.errors import InputError
from burnish.randomness import counter_generator, stable_hash
from burnish.tasks.families.spec import LevelledSpec
from burnish.tasks.task import Task

HELDOUT_SHARE = 0.2
"""Share of the items that training never sees. A constant and not an option: two specs with different shares would
overlap."""

_PATIENCE = 1000
"""Draws in a row without anything new before a level counts as exhausted."""


@dataclass(frozen=True)
class Item:
    """Something that can be asked for."""

    core: str
    """What decides the split: whatever has the same one is on the same side."""
    asked: str
    """What tells it from other items with the same core."""
    content: Any


T = TypeVar("T")

Draw = Callable[[np.random.Generator, int], Item | None]
"""An item of a level, from a generator; nothing where what was drawn is no good item."""


def pick(random: np.random.Generator, among: Sequence[T]) -> T:
    """One of them, with equal chance."""
    return among[int(random.integers(len(among)))]


def heldout(kind: str, core: str) -> bool:
    """Whether items with this core belong to the held-out split, by a hash: alike for every seed, level and wording."""
    return stable_hash(f"burnish.tasks.families/split {kind} {core}") < HELDOUT_SHARE * 2**64


def generate(spec: LevelledSpec, kind: str, seed: int, draw: Draw) -> list[tuple[int, Any]]:
    """Level and content of the first `spec.count` distinct items of the seed's sequence, the levels in turn.

    A larger count only appends. No item is one of the examples. Raises InputError when there are not that many.
    """
    found: dict[tuple[str, str], tuple[int, Any]] = {}
    stream = stable_hash(f"burnish.tasks.families/{kind}")
    random = {level: counter_generator(seed, stream, level) for level in spec.levels}
    shown = {(item.core, item.asked) for level in spec.levels for item in _examples(spec, kind, level, draw)}
    barren = 0
    while len(found) < spec.count:
        level = spec.levels[len(found) % len(spec.levels)]
        item = draw(random[level], level)
        barren += 1
        if item is not None and heldout(kind, item.core) == (spec.split == "heldout"):
            key = (item.core, item.asked)
            if key not in found and key not in shown:
                found[key], barren = (level, item.content), 0
        if barren > _PATIENCE:
            raise InputError(
                f"data.family.count: {spec.count} items wanted, but the {spec.split} split of {kind} has hardly more "
                f"than {len(found)} with levels {', '.join(map(str, spec.levels))}: level {level} is used up; lower "
                "count, or take other levels"
            )
    return list(found.values())


def _examples(spec: LevelledSpec, kind: str, level: int, draw: Draw) -> list[Item]:
    """The examples of a level: the same for every seed and split, and none of them held out."""
    random = counter_generator(0, stable_hash(f"burnish.tasks.families/{kind}/examples"), level)
    found: dict[tuple[str, str], Item] = {}
    while len(found) < spec.examples:
        item = draw(random, level)
        if item is not None and not heldout(kind, item.core):
            found.setdefault((item.core, item.asked), item)
    return list(found.values())


@dataclass(frozen=True)
class Asking:
    """How the items of a family become tasks."""

    spec: LevelledSpec
    kind: str
    seed: int
    chat: bool
    system: str | None
    demonstrations: bool

    def tasks(self, draw: Draw, written: Callable[[Any], tuple[str, str, dict[str, Any]]]) -> list[Task]:
        """The family's tasks; `written` gives question, answer and columns of an item's content.

        Chat messages, or prompt texts that the answer continues after a line end. Raises InputError when the family
        does not hold as many as are wanted.
        """
        spec, kind = self.spec, self.kind
        examples = {
            level: [written(item.content)[:2] for item in _examples(spec, kind, level, draw)] for level in spec.levels
        }
        items = generate(spec, kind, self.seed, draw)
        return [self._task(level, *written(content), examples[level]) for level, content in items]

    def _task(
        self, level: int, prompt: str, answer: str, columns: dict[str, Any], examples: list[tuple[str, str]]
    ) -> Task:
        user, assistant = (lambda text, role=role: {"role": role, "content": text} for role in ("user", "assistant"))
        said = [{"role": "system", "content": self.system}] if self.system else []
        said += [message for asked, told in examples for message in (user(asked), assistant(told))]
        text = "".join(f"{asked}\n{told}\n\n" for asked, told in examples)
        shown = (assistant(answer),) if self.chat else answer
        return Task(
            messages=(*said, user(prompt)) if self.chat else None,
            prompt=None if self.chat else f"{text}{prompt}\n",
            answer=answer,
            demonstration=shown if self.demonstrations else None,
            columns={"prompt": prompt, "answer": answer, "level": level, **columns},
            domain=self.kind,
            seed=self.seed,
            difficulty=float(level),
        )
