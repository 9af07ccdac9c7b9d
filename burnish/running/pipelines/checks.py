"""What can be found wrong with the data and rewards of a pipeline before its first node runs. No torch here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from burnish.errors import InputError
from burnish.feedback.build import build as build_feedback
from burnish.feedback.checking import Check
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.running.held_apart import checked_overlap
from burnish.running.pipelines.graph import Graph, Node
from burnish.running.pipelines.spec import EvaluateSpec, JudgeSpec, SampleSpec
from burnish.tasks import Task, build_tasks
from burnish.tasks.spec import DataSpec
from burnish.tasks.training import TrainingDataSpec


def check_inputs(graph: Graph, ids: Iterable[str]) -> None:
    """Read the data and load the reward functions of the nodes in `ids`, and see whether they fit each other.

    Raises InputError naming each node and what its run would have stopped at. What comes from another node is taken on
    trust.
    """
    mistakes: dict[str, None] = {}
    wanted, seen = set(ids), set()
    for node in graph.nodes:
        alike = (node.place, node.spec.model_dump_json(exclude={"seed"}))  # iterations differ in the seed alone
        if node.id not in wanted or alike in seen:
            continue
        seen.add(alike)
        try:
            _check(node, {other.id: other for other in graph.nodes})
        except InputError as error:
            mistakes[f"{node.place}: {error}"] = None
    if mistakes:
        raise InputError("\n".join(mistakes))


def _check(node: Node, nodes: Mapping[str, Node]) -> None:
    match node.spec:
        case Recipe():
            _check_recipe(node.spec)
        case SampleSpec(data=data, seed=seed):
            _tasks(data, seed or 0)
        case EvaluateSpec(data=data, seed=seed, correct=correct):
            Check(correct).feedback.check(_tasks(data, seed or 0))
        case JudgeSpec(rewards=rewards):
            feedback = build_feedback(rewards)
            for spec in _sampled(node, nodes):
                feedback.check(_tasks(spec.data, spec.seed or 0))


def _check_recipe(recipe: Recipe) -> None:
    sampled = isinstance(recipe, RolloutRecipe)
    if recipe.data is None:
        return  # a generated world has tasks and rewards of its own
    tasks = _tasks(recipe.data, recipe.seed, demonstrations=not sampled)
    if isinstance(recipe, RolloutRecipe) and recipe.rewards is not None:
        build_feedback(recipe.rewards).check(tasks)
    if recipe.evaluation is not None and recipe.evaluation.data is not None:
        held_out = _tasks(recipe.evaluation.data, recipe.seed)
        Check(recipe.evaluation.correct).feedback.check(held_out)
        checked_overlap(recipe.evaluation, held_out, tasks, recipe.environment)


def _tasks(data: DataSpec, seed: int, *, demonstrations: bool = False) -> list[Task]:
    """The tasks of a spec; none where they come from another node."""
    parts = data.parts if isinstance(data, TrainingDataSpec) else (data,)
    if any(part.path is not None and part.path.startswith("@") for part in parts):
        return []
    return build_tasks(data, seed=seed, demonstrations=demonstrations)


def _sampled(node: Node, nodes: Mapping[str, Node]) -> Iterator[SampleSpec]:
    """The specs of the sample nodes that a dataset comes from."""
    for source in node.inputs:
        maker = nodes[source.node]
        if isinstance(maker.spec, SampleSpec):
            yield maker.spec
        elif not isinstance(maker.spec, Recipe):
            yield from _sampled(maker, nodes)
