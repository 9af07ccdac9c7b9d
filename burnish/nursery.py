"""What a notebook calls for the nursery: list its models, build one by its committed recipe, measure its pass rates."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from burnish.errors import InputError
from burnish.models.folders import check_replaceable
from burnish.models.nursery import parameters
from burnish.models.nursery_list import PRETRAINED, NurseryEntry, Origin, Rate, nursery_entries
from burnish.models.nursery_shapes import SIZES
from burnish.running.output import results
from burnish.running.progress import Mode, Progress, make_progress
from burnish.tasks.suggest import did_you_mean

if TYPE_CHECKING:
    from burnish.studies.evaluation import Evaluation

__all__ = ["Built", "Listed", "build_nursery", "list_nursery", "nursery_rates"]

WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Listed:
    """A nursery model: `nursery:NAME` loads it, where it ships with the package or is built."""

    name: str
    size: str
    parameters: int
    origin: Origin
    sampled: Rate | None
    """Recorded pass rate on held-out tasks at temperature 1."""
    greedy: Rate | None

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        rates = {key: rate and [rate.estimate, rate.low, rate.high] for key, rate in self._rates.items()}
        return {"name": self.name, "size": self.size, "parameters": self.parameters, "origin": self.origin, **rates}

    @property
    def _rates(self) -> dict[str, Rate | None]:
        return {"sampled": self.sampled, "greedy": self.greedy}


@dataclass(frozen=True)
class Built:
    """A model that was built, or was there already."""

    name: str
    folder: Path
    seconds: float
    """0 where it was there already."""
    same_as_shipped: bool | None
    """Whether its weights are those that ship, bit for bit; None where none ship."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "name": self.name, "folder": str(self.folder), "seconds": round(self.seconds, 1),
            "same_as_shipped": self.same_as_shipped,
        }  # fmt: skip


def list_nursery() -> list[Listed]:
    """Every pretrained model of the nursery, with its recorded pass rates and where it comes from. Imports no torch."""
    return [
        Listed(name, entry.size, parameters(entry.size), entry.origin, entry.sampled, entry.greedy)
        for name, entry in nursery_entries().items()
    ]


def build_nursery(
    names: str | Sequence[str] = (), *, out: str | Path | None = None, progress: Progress | Mode = "auto"
) -> list[Built]:
    """Make models of the nursery by their committed recipes: by default each that neither ships nor is built.

    `out` is a folder that gets each model as OUT/NAME and the run that made it as OUT/NAME.run; by default both go to
    the cache, where `nursery:NAME` finds them. What is there already is kept, and a run that was interrupted goes on.
    `progress` is a display, or the mode of one. Raises InputError for a name there is not and for a place that cannot
    hold a model, before anything is built, and what `train` raises.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    entries = [_entry(name) for name in wanted] or [e for e in nursery_entries().values() if e.folder is None]
    targets = [entry.cached if out is None else Path(out) / entry.name for entry in entries]
    for target in targets:
        check_replaceable(target)
    return [
        _build(entry, target, progress, f"{number} of {len(entries)}")
        for number, (entry, target) in enumerate(zip(entries, targets, strict=True), 1)
    ]


def _entry(name: str) -> NurseryEntry:
    entries = nursery_entries()
    name = name.removeprefix("nursery:")
    if name in SIZES:
        raise InputError(f"{name} is a fresh network, which needs no building: use it as nursery:{name}")
    if name not in entries:
        raise InputError(f"there is no recipe for a nursery model {name!r}; {did_you_mean(name, entries)}")
    return entries[name]


def _build(entry: NurseryEntry, target: Path, progress: Progress | Mode, which: str) -> Built:
    if (target / WEIGHTS).is_file():
        return Built(entry.name, target, 0.0, _same_as_shipped(entry, target))
    from burnish.api import train  # imports torch
    from burnish.running.config import load_recipe
    from burnish.running.talk import export_model

    def display() -> AbstractContextManager[Progress]:
        return make_progress(progress, Console(file=results())) if isinstance(progress, str) else nullcontext(progress)

    began = time.perf_counter()
    with display() as shown:
        shown.message(f"{which}: {entry.name}, {entry.steps} steps of {entry.family}.yaml")
        recipe = load_recipe(entry.recipe, entry.overrides)
        run = train(recipe, out=_run_of(target), resume=True, name=entry.name, progress=shown)
    export_model(run.out / "final", target, dtype=entry.stored)
    return Built(entry.name, target, time.perf_counter() - began, _same_as_shipped(entry, target))


def _run_of(target: Path) -> Path:
    """The directory of the run that makes a model, beside the model."""
    return target.with_name(f"{target.name}.run")


def _same_as_shipped(entry: NurseryEntry, target: Path) -> bool | None:
    shipped = PRETRAINED / entry.name / WEIGHTS
    return (target / WEIGHTS).read_bytes() == shipped.read_bytes() if shipped.is_file() else None


@dataclass(frozen=True)
class Rates:
    """What was measured of a model, beside what is recorded of it."""

    name: str
    measured: dict[str, Evaluation]
    """`greedy` and `sampled`."""
    recorded: dict[str, Rate | None]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        found: dict[str, Any] = {"name": self.name}
        for key, evaluation in self.measured.items():
            rate = self.recorded[key]
            found[key] = {**evaluation.summary(), "recorded": rate and [rate.estimate, rate.low, rate.high]}
        return found

    def __str__(self) -> str:
        lines = []
        for key, label in (("sampled", "at temperature 1"), ("greedy", "greedy")):
            rate = self.recorded[key]
            lines.append(f"{label}: {self.measured[key].accuracy} (recorded: {rate or 'nothing'})")
        return "\n".join([self.name, *lines])


def nursery_rates(name: str, *, samples: int = 4, seed: int = 0, limit: int | None = None) -> Rates:
    """Measure a nursery model's pass rates on the held-out tasks of its recipe: greedy, and at temperature 1.

    `samples` are drawn for each task at temperature 1; `limit` takes the first so many tasks. The recorded rates were
    measured with the defaults and seed 0. Raises InputError for a model that there is not, or that is to be built.
    """
    from burnish.running.config import load_recipe
    from burnish.studies.rates import pass_rates

    entry = _entry(name)
    recipe = load_recipe(entry.recipe, [*entry.overrides, *_limited(entry, limit)])
    measured = pass_rates(f"nursery:{entry.name}", recipe, samples=samples, turns=entry.turns, seed=seed)
    return Rates(entry.name, measured, {"sampled": entry.sampled, "greedy": entry.greedy})


def _limited(entry: NurseryEntry, limit: int | None) -> list[str]:
    if limit is None:
        return []
    from burnish.running.config import load_recipe

    where = "environment" if "\nenvironment:" in entry.recipe.read_text("utf-8") else "data.family"
    spec = load_recipe(entry.recipe, entry.overrides).evaluation
    asked = spec and (spec.environment if where == "environment" else spec.data and spec.data.family)
    return [f"evaluation.{where}.count={json.dumps(min(limit, getattr(asked, 'count', limit)))}"]
