"""The nursery's models by name: which recipe makes each, what was measured of it, where it is. No torch here.

`burnish/nursery_recipes/` holds a recipe for each family, written for size S, and models.yaml with what the other sizes
change and with the recorded pass rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import yaml

from burnish.models.folders import cache_directory
from burnish.randomness import stable_hash

_PACKAGE = Path(__file__).parents[1]

PRETRAINED = _PACKAGE / "nursery_models"
"""Folder of the models that ship with the package, one `transformers` folder each."""

RECIPES = _PACKAGE / "nursery_recipes"
"""Folder of the recipes that make them."""

Origin = Literal["ships", "built", "to build"]


@dataclass(frozen=True)
class Rate:
    """A share with its 95 % interval."""

    estimate: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class NurseryEntry:
    """A model that a committed recipe makes."""

    name: str
    family: str
    size: str
    steps: int
    changes: Mapping[str, Any]
    """Keys of the family's recipe that are other than it says."""
    stored: str
    """The type in which its weights are written."""
    turns: int | None
    """The most turns of an attempt in a world when its rates are measured; None: as the world says."""
    sampled: Rate | None
    """Recorded pass rate on held-out tasks at temperature 1; None where none was measured."""
    greedy: Rate | None

    @property
    def recipe(self) -> Path:
        """The family's recipe."""
        return RECIPES / f"{self.family}.yaml"

    @property
    def overrides(self) -> list[str]:
        """Changes to the family's recipe, as on the command line."""
        changes = {"model.path": f"nursery:{self.size}", "steps": self.steps, **self.changes}
        return [f"{key}={value}" for key, value in changes.items()]

    @property
    def cached(self) -> Path:
        """Where it is built by default; another recipe, and another network to begin with, has another place."""
        from burnish.models.nursery import fresh_content  # which imports this

        content = f"{self.recipe.read_text('utf-8')}{self.overrides}{self.stored}{fresh_content(self.size)}"
        return cache_directory() / "nursery" / f"{self.name}-{stable_hash(content):016x}"

    @property
    def folder(self) -> Path | None:
        """The model's folder: the one that ships, or the built one; None where there is neither."""
        found = (PRETRAINED / self.name, self.cached)
        return next((folder for folder in found if (folder / "config.json").is_file()), None)

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        if self.folder is None:
            return "to build"
        return "ships" if self.folder.parent == PRETRAINED else "built"


@cache
def nursery_entries() -> Mapping[str, NurseryEntry]:
    """Every model that there is a recipe for, by name, in the order of models.yaml."""
    listed = yaml.safe_load((RECIPES / "models.yaml").read_text("utf-8"))
    return {name: _entry(name, values) for name, values in listed.items()}


def _entry(name: str, values: Mapping[str, Any]) -> NurseryEntry:
    family, _, size = name.rpartition("-")
    rates = {key: Rate(*values[key]) if key in values else None for key in ("sampled", "greedy")}
    rest = values.get("set", {}), values.get("stored", "float32"), values.get("turns")
    return NurseryEntry(name, family, size, values["steps"], *rest, **rates)
