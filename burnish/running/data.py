"""Data as training would read it, for a look before a run. No torch here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from burnish.methods.recipe import EvaluationSpec
from burnish.running.config import spec_from_mapping
from burnish.running.keywords import overrides_of
from burnish.tasks import Task, build_tasks
from burnish.tasks.spec import DataSpec

FAMILY = "family:"
"""How a generated family is named where a file may stand as well."""
WORLD = "world:"
"""How a generated world is named there."""
ITEMS = 300
"""Held-out items of a family or a world that are asked unless told otherwise."""


def data_origin(data: str | Path, **family: Any) -> dict[str, Any]:
    """The keys of `data` for a file of rows, or for `family:NAME` with further keys of a family."""
    text = str(data)
    if text.startswith(FAMILY):
        return {"family": {"kind": text.removeprefix(FAMILY), **family}}
    return {"path": text}


def evaluation_spec(data: str | Path, overrides: Sequence[str] = ()) -> EvaluationSpec:
    """An evaluation on a file, or on held-out items of `family:NAME` or `world:NAME`, with overrides.

    Raises InputError.
    """
    if str(data).startswith(WORLD):
        world = {"kind": str(data).removeprefix(WORLD), "split": "heldout", "count": ITEMS}
        return spec_from_mapping(EvaluationSpec, {"environment": world}, overrides, name="evaluation")
    origin = data_origin(data, split="heldout", count=ITEMS)
    return spec_from_mapping(EvaluationSpec, {"data": origin}, overrides, name="evaluation")


def read_tasks(
    data: str | Path, overrides: Sequence[str] = (), *, demonstrations: bool = False, seed: int = 0, **keys: Any
) -> list[Task]:
    """The tasks of a JSONL file, or of `family:NAME`, in the order in which a run attempts them.

    With `demonstrations` each also carries what to imitate, as supervised training reads it. Further keys are those of
    `data` in a recipe (`prompt="question"`), or `overrides` such as "prompt=question". Raises InputError naming the
    file, the line or the key, and the fix.
    """
    spec = spec_from_mapping(DataSpec, data_origin(data), [*overrides, *overrides_of(keys)], name="data")
    return build_tasks(spec, seed=seed, demonstrations=demonstrations)
