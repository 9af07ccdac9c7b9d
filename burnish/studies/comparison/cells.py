"""The cells of a study: each a small pipeline of train nodes, and a hash of all that decides what comes out. No torch.

A cell has no loop of its own: its stages are recipes, each with its seed, its steps and the held-out evaluation put in.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.methods.registry import METHODS
from burnish.running.pipelines.checks import check_inputs
from burnish.running.pipelines.contents import Contents, digest
from burnish.running.pipelines.graph import Graph, build_graph
from burnish.running.pipelines.plan import outside_of
from burnish.running.pipelines.reading import read_pipeline
from burnish.running.yamlfile import read_yaml
from burnish.studies.comparison.spec import SETTABLE, StageSpec, StudySpec

FORMAT = 1
"""Of cells. Another number makes every cell anew."""
_LATER = 1000
"""What is added to the seed of generated tasks for each later stage, so that it trains on others."""


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    method: str
    model: str
    task: str
    seed: int
    pipeline: Mapping[str, Any] = field(repr=False)
    """As a pipeline's file has it: a train node for each stage, called s1, s2 and so on."""
    recipes: tuple[Recipe, ...] = field(repr=False)
    """Of its stages, resolved."""
    hash: str = ""

    @property
    def file(self) -> str:
        """Name of its file of results."""
        return f"{self.method}-{self.model}-{self.task}-{self.seed}-{self.hash}.json"

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.method}, {self.model}, {self.task}, seed {self.seed}"


def cells_of(spec: StudySpec, file: str) -> list[Cell]:
    """Every cell, model by model and seed by seed, so that a study that is stopped has whole pairs.

    Raises InputError for a recipe that cannot be made, naming method, model and task; for a model or data that is not
    there; for a budget that does not divide into steps.
    """
    contents, found, mistakes = Contents(), [], dict[str, None]()
    for method, model, task, seed in _grid(spec):
        try:
            found.append(_cell(spec, method, model, task, seed, contents))
        except InputError as error:
            mistakes[f"{file}: method {method}, model {model}, task {task}: {_named(str(error))}"] = None
            if len(mistakes) == 8:  # one mistake is often one of every cell
                break
    if mistakes:
        raise InputError("\n".join(mistakes))
    return found


def check_cells(cells: list[Cell], file: str) -> None:
    """Read the data of one cell of each kind, as `burnish pipeline run` does before its first node.

    Raises InputError, for held-out tasks that are trained on above all.
    """
    for cell in {(c.method, c.model, c.task): c for c in reversed(cells)}.values():
        try:
            graph = build_graph(read_pipeline(cell.pipeline))
            check_inputs(graph, [node.id for node in graph.nodes])
        except InputError as error:
            where = f"method {cell.method}, model {cell.model}, task {cell.task}"
            raise InputError(f"{file}: {where}: {_named(str(error))}") from None


def _grid(spec: StudySpec) -> Iterator[tuple[str, str, str, int]]:
    for model in spec.models:
        for seed in range(seeds_of(spec, model)):
            yield from ((method, model, task, seed) for task in spec.tasks for method in spec.methods)


def seeds_of(spec: StudySpec, model: str) -> int:
    """How many seeds a model has."""
    return spec.models[model].seeds or spec.seeds


def _cell(spec: StudySpec, method: str, model: str, task: str, seed: int, contents: Contents) -> Cell:
    stages = spec.methods[method].stages
    nodes: dict[str, Any] = {}
    for number, stage in enumerate(stages):
        nodes[f"s{number + 1}"] = _node(spec, stage, model, task, seed, number)
    graph = build_graph(read_pipeline({"pipeline": "cell", "nodes": nodes}))
    last = len(stages) - 1
    for number, (stage, node) in enumerate(zip(stages, graph.nodes, strict=True)):
        assert isinstance(node.spec, Recipe)  # every node trains
        steps, every = _steps(spec, stage, node.spec, last=number == last)
        changes = nodes[node.id]["train"]["set"]
        changes |= {"steps": steps, "evaluation.every": every}
        if number and getattr(node.spec.environment, "seed", seed) is None:
            changes["environment.seed"] = seed + _LATER * number
    pipeline = {"pipeline": "cell", "nodes": nodes}
    graph = build_graph(read_pipeline(pipeline))
    return Cell(method, model, task, seed, pipeline, tuple(_recipes(graph)), _hash(graph, contents))


def _recipes(graph: Graph) -> Iterator[Recipe]:
    for node in graph.nodes:
        assert isinstance(node.spec, Recipe)
        yield node.spec


def _node(spec: StudySpec, stage: StageSpec, model: str, task: str, seed: int, number: int) -> dict[str, Any]:
    """A stage as a node of a pipeline; its steps come later, since they depend on its recipe."""
    changes: dict[str, Any] = {}
    rollouts = spec.tasks[task].rollouts if _samples(stage) else {}
    for layer in (spec.models[model].set, spec.tasks[task].set, rollouts, stage.set):
        changes |= copy.deepcopy(layer)
    held_out = copy.deepcopy(spec.test.evaluation)
    for key in {"data", "environment", "correct"} - set(held_out):
        changes[f"evaluation.{key}"] = None  # a recipe's own evaluation makes way
    changes |= {f"evaluation.{key}": value for key, value in held_out.items()}
    changes["seed"] = seed
    if number:
        changes.pop("model", None)
        changes["model.path"] = f"@s{number}"
    return {"train": {"recipe": stage.recipe, "set": changes}}


def _samples(stage: StageSpec) -> bool:
    """Whether a stage's method learns from its own samples. What is wrong with the recipe is told where it is read."""
    written = stage.recipe if isinstance(stage.recipe, dict) else read_yaml(Path(stage.recipe))[0]
    method = stage.set.get("method", written.get("method") if isinstance(written, dict) else None)
    return isinstance(method, str) and method in METHODS and issubclass(METHODS[method].recipe, RolloutRecipe)


def _steps(spec: StudySpec, stage: StageSpec, recipe: Recipe, *, last: bool) -> tuple[int, int]:
    """Steps of a stage, and after how many of them it is evaluated."""
    budget, more = spec.budget, spec.budget.beyond - 1 if last else 0.0
    if budget.unit in SETTABLE:
        each = 1 if budget.unit == "steps" else recipe.prompts_per_step
        within = stage.share * budget.amount / each
        total = (stage.share + more) * budget.amount / each
        every = budget.amount / each / spec.test.points
        for what, value in (("the budget", within), ("what lies beyond the budget", total)):
            if abs(value - round(value)) > 1e-6 or value < 0.5:
                raise InputError(
                    f"budget: {what} comes to {value:g} steps of this recipe, which is no whole number: change "
                    "budget.amount, the stage's share, or prompts_per_step"
                )
    else:
        within = recipe.steps
        total, every = within * (1 + more / stage.share), within / stage.share / spec.test.points
    places = within / every
    if abs(every - round(every)) > 1e-6 or every < 0.5 or abs(places - round(places)) > 1e-6:
        raise InputError(
            f"test.points: {within:g} steps, {stage.share:g} of the budget, cannot be evaluated at {spec.test.points} "
            "equal parts of the budget: choose points that divide the steps of every stage"
        )
    return round(total), round(every)


def _hash(graph: Graph, contents: Contents) -> str:
    """A hash of what decides the result: the settings that are not the defaults, and the content of what they name.

    A key that a newer version adds has its default here, and changes nothing; nor does the path of a folder.
    """
    counted = []
    outside = outside_of(graph, contents)
    for recipe, node in zip(_recipes(graph), graph.nodes, strict=True):
        settings = settings_of(recipe)
        inside = {content.key: content.hash for content in outside[node.id]}
        for key, hashed in inside.items():
            place: Any = settings
            for part in key[:-1]:
                place = place[part]
            place[key[-1]] = f"content {hashed}"
        counted.append(settings)
    return digest([FORMAT, counted])[:12]


def settings_of(recipe: Recipe) -> dict[str, Any]:
    """What a recipe says that is not the default, and which kind of thing each part of it is."""
    full, other = (recipe.model_dump(mode="json", exclude_defaults=sparse) for sparse in (False, True))
    return _told(full, other)


def _told(full: Any, other: Any) -> Any:
    if isinstance(full, dict) and isinstance(other, dict):
        return {
            key: _told(value, other.get(key, value))
            for key, value in full.items()
            if key in other or key in ("kind", "method")
        }
    if isinstance(full, list) and isinstance(other, list):
        return [_told(one, two) for one, two in zip(full, other, strict=True)]
    return other


def _named(message: str) -> str:
    """A message about a node of a cell's pipeline, in the words of a study."""
    for number in range(1, 10):
        message = message.replace(f"pipeline, node s{number}", f"stage {number}")
    return message


def place_of(results: Path, cell: Cell) -> Path:
    """Where a cell's results are written."""
    return results / "cells" / cell.file
