"""What the generated worlds share: tasks as a function of a seed, split by their content. No torch here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from burnish.environments.spec import WorldSpec
from burnish.errors import InputError
from burnish.randomness import counter_generator, counter_uniform, stable_hash
from burnish.tasks import Task

HELDOUT_SHARE = 0.2
"""Share of the tasks there are that training never sees. A constant, so that two specs cannot overlap."""

_SPLIT = stable_hash("burnish.environments.worlds/split")
_PATIENCE = 2000
"""Draws in a row without anything new before a world counts as exhausted."""

Draw = Callable[[np.random.Generator, int], dict[str, Any]]
"""What a task of a level is, as JSON values, from a generator."""


def heldout(kind: str, content: Mapping[str, Any]) -> bool:
    """Whether a task belongs to the held-out split, by a hash of what it is."""
    return float(counter_uniform(_SPLIT, stable_hash(kind + json.dumps(content, sort_keys=True)))) < HELDOUT_SHARE


def generate(kind: str, spec: WorldSpec, seed: int, draw: Draw) -> list[dict[str, Any]]:
    """The first `spec.count` distinct tasks of the seed's endless sequence, the levels in turn.

    A larger count only appends to it. Raises InputError when there are not that many.
    """
    found: dict[str, dict[str, Any]] = {}
    index = barren = 0
    stream = stable_hash(f"burnish.environments.worlds/{kind}")
    while len(found) < spec.count:
        level = spec.levels[len(found) % len(spec.levels)]
        content = {"level": level, **draw(counter_generator(seed, stream, level, index), level)}
        index += 1
        key = json.dumps(content, sort_keys=True)
        if key in found or heldout(kind, content) != (spec.split == "heldout"):
            barren += 1
            if barren > _PATIENCE:
                raise InputError(
                    f"environment.count: {spec.count} tasks wanted, but the {spec.split} split of {kind} has hardly "
                    f"more than {len(found)} at level {level}; lower count, or add higher levels"
                )
            continue
        found[key], barren = content, 0
    return list(found.values())


def shown(stream: int, seed: int, task: Task, share: float) -> bool:
    """Whether a task is among those of a share, by a hash of what it is."""
    return float(counter_uniform(stream, seed, task.number)) < share


def world_task(kind: str, content: Mapping[str, Any], prompt: str, answer: str | None, seed: int) -> Task:
    """A task of a world; its content is private, in the columns."""
    return Task(
        messages=({"role": "user", "content": prompt},), answer=answer, columns={"world": kind, **content},
        domain=kind, seed=seed, difficulty=float(content["level"]),
    )  # fmt: skip
