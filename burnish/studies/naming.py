"""What `--tasks` names: families, worlds, files, data sets, recipes, tasks of lm-eval; and training data. No torch.

An evaluation is asked for by name before any model is loaded, so that a misspelt one costs nothing.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from burnish.environments.registry import build
from burnish.environments.spec import AnyEnvironment, AnyWorld, CustomSpec
from burnish.errors import InputError
from burnish.methods.recipe import EvaluationSpec, Recipe, RolloutRecipe
from burnish.running.checking import HUB, check_data
from burnish.running.config import load_recipe, spec_from_mapping
from burnish.running.data import FAMILY, ITEMS, WORLD, data_origin
from burnish.sources.spec import EpisodesSpec
from burnish.tasks import Task
from burnish.tasks.build import read_data
from burnish.tasks.families.spec import AnyFamily
from burnish.tasks.suggest import did_you_mean

HARNESS, RECIPE = "lm-eval:", "recipe:"
_FILES = (".jsonl", ".json", ".parquet")
_RECIPES = (".yaml", ".yml")


def _kinds(union: Any) -> tuple[str, ...]:
    return tuple(spec.model_fields["kind"].default for spec in get_args(get_args(union)[0]))


FAMILIES, WORLDS = _kinds(AnyFamily), _kinds(AnyWorld)
CHECKS: dict[str, Any] = {
    "countdown": {"kind": "expression"}, "knights": {"kind": "claims"}, "modular": {"kind": "claims"},
    "programs": {"kind": "code"}, "records": {"kind": "json_schema", "key": "right"}, "symbols": {"kind": "exact"},
}  # fmt: skip
"""Family -> what judges its answers, where that is not a number."""

FAMILY_KEYS: dict[str, dict[str, Any]] = {"knights": {"levels": [2], "count": 200}}
"""Family -> keys that differ from those of the others, since it holds fewer tasks."""


@dataclass(frozen=True)
class Asked:
    """An evaluation that was asked for by name."""

    name: str
    spec: EvaluationSpec
    environment: AnyEnvironment | None = None
    """Where its tasks are attempted, if anywhere."""
    episodes: EpisodesSpec = field(default_factory=EpisodesSpec)


@dataclass(frozen=True)
class HarnessTask:
    """A task of lm-eval: a name that it knows, or the path of its YAML file."""

    name: str
    task: str
    limit: int | None = None
    """At most so many documents, the first."""


def asked(name: str, overrides: Sequence[str] = ()) -> Asked | HarnessTask:
    """The evaluation that a name stands for, with keys of `evaluation` changed.

    `family:NAME` and `world:NAME` (or NAME alone) are the 300 held-out items of a generated family or world, `hub:ID`
    and a path are rows with answers, a YAML file is the recipe whose evaluation it is, `lm-eval:NAME` is a task of
    lm-eval. Raises InputError for a name there is not, and for keys that do not fit it.
    """
    if name.startswith(HARNESS):
        return _harness(name, overrides)
    if name.startswith(RECIPE) or name.endswith(_RECIPES):
        return _of_recipe(name, overrides)
    if name.startswith(WORLD) or (name in WORLDS and not Path(name).exists()):
        kind = _known(name.removeprefix(WORLD), WORLDS, "world")
        world = {"kind": kind, "split": "heldout", "count": ITEMS}
        spec = spec_from_mapping(EvaluationSpec, {"environment": world}, overrides, name=f"evaluation of {name}")
        return Asked(name, spec, spec.environment)
    return Asked(
        name, spec_from_mapping(EvaluationSpec, _data(name, overrides), overrides, name=f"evaluation of {name}")
    )


def _data(name: str, overrides: Sequence[str]) -> dict[str, Any]:
    if name.startswith(HUB):
        return {"data": {"hub": name.removeprefix(HUB)}}
    if not name.startswith(FAMILY) and (Path(name).exists() or name.endswith(_FILES)):
        return {"data": {"path": name}}
    bare = name.removeprefix(FAMILY)
    if not name.startswith(FAMILY) and bare not in FAMILIES:
        raise InputError(
            f"there is no task {name!r}: {did_you_mean(name, [*FAMILIES, *WORLDS])}. A task is one of these names, a "
            f"file of rows, {HUB}ID, a recipe (FILE.yaml), or {HARNESS}NAME"
        )
    kind = _known(bare, FAMILIES, "family")
    held_out = {"split": "heldout", "count": ITEMS, **FAMILY_KEYS.get(kind, {})}
    found: dict[str, Any] = {"data": data_origin(FAMILY + kind, **held_out)}
    if kind in CHECKS and not any(key.startswith("correct") for key in overrides):
        found["correct"] = CHECKS[kind]
    return found


def _known(name: str, names: Sequence[str], what: str) -> str:
    if name not in names:
        raise InputError(f"there is no {what} {name!r}; {did_you_mean(name, names)}")
    return name


def _of_recipe(name: str, overrides: Sequence[str]) -> Asked:
    path = name.removeprefix(RECIPE)
    recipe = load_recipe(path)
    if recipe.evaluation is None:
        raise InputError(f"{path} has no `evaluation`, so it names no held-out tasks")
    values = recipe.evaluation.model_dump(mode="json", exclude_defaults=True)
    spec = spec_from_mapping(EvaluationSpec, values, overrides, name=f"evaluation of {path}")
    own = recipe.environment if isinstance(recipe.environment, CustomSpec) else None
    episodes = recipe.episodes if isinstance(recipe, RolloutRecipe) else EpisodesSpec()
    return Asked(name, spec, spec.environment or own, episodes)


def _harness(name: str, overrides: Sequence[str]) -> HarnessTask:
    if importlib.util.find_spec("lm_eval") is None:
        raise InputError(f"{name} needs lm-eval, which is not installed: pip install 'burnish[lm-eval]'")
    limit = None
    for override in overrides:
        key, _, value = override.partition("=")
        if key != "data.limit" or not value.isdigit() or int(value) < 1:
            raise InputError(
                f"{name}: lm-eval's tasks say themselves how they are asked, so {override!r} is unused; they take "
                "data.limit=N alone. Evaluate them apart from the others, or make a task of your own of it"
            )
        limit = int(value)
    return HarnessTask(name, name.removeprefix(HARNESS), limit)


# ---------------------------------------------------------------- training data


def recipe_of_run(model: str | Path) -> Path | None:
    """The resolved recipe of the run that a model comes from, where the model lies in a run directory."""
    folder = Path(model).expanduser()
    for place in (folder, *folder.parents[:3]):
        if (place / "config.yaml").is_file() and (place / "run.json").is_file():
            return place / "config.yaml"
    return None


def training_tasks(source: str | Path) -> list[Task]:
    """What was trained on: a run directory, a recipe, `family:NAME`, `hub:ID` or a file of rows, as `data check` reads.

    Raises InputError when it cannot be read.
    """
    path = Path(source)
    if path.is_dir() and (path / "config.yaml").is_file():
        return tasks_of_recipe(load_recipe(path / "config.yaml"))
    if str(source).endswith(_RECIPES):
        return tasks_of_recipe(load_recipe(path))
    found = check_data(source).tasks
    if not found:
        raise InputError(f"{source}: no row of it can be used as training data; `burnish data check {source}` says why")
    return list(found)


def tasks_of_recipe(recipe: Recipe, base: Path | None = None) -> list[Task]:
    """The tasks that a recipe trains on."""
    want = "prompts" if isinstance(recipe, RolloutRecipe) else "demonstrations"
    tasks = [] if recipe.data is None else read_data(recipe.data, seed=recipe.seed, want=want, base=base).tasks
    if recipe.environment is None or isinstance(recipe.environment, CustomSpec):
        return tasks
    return build(recipe.environment, seed=recipe.seed, base=base).tasks()
