"""A run's models asked again: its weights at some point, in worlds or on tasks with a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from burnish.environments.protocol import Family
from burnish.environments.spec import AnyWorld
from burnish.feedback.checking import Check
from burnish.ledger import Ledger
from burnish.methods.recipe import EvaluationSpec, Recipe
from burnish.models.spec import ModelSpec
from burnish.running.acting import family_of, setting_of
from burnish.running.config import recipe_from_mapping
from burnish.running.sync import finished
from burnish.running.talk import Speaker, model_spec
from burnish.sampling import SamplingParams
from burnish.sources.attempt import gathered
from burnish.sources.calls import syntax_of
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.spec import EpisodesSpec
from burnish.studies.acting import evaluate_attempts
from burnish.studies.audits.finding import UnmeasuredError
from burnish.studies.audits.places import Point
from burnish.studies.audits.reading import RunFiles
from burnish.studies.evaluation import Evaluation, evaluate
from burnish.studies.judging import judged_by
from burnish.tasks import Task, build_tasks
from burnish.tasks.rendering import prompt_of

ROWS = 256
"""Sequences that are decoded at once."""


def recipe_of(run: RunFiles) -> Recipe:
    """The run's recipe. Raises UnmeasuredError when the run has none."""
    if not run.config:
        raise UnmeasuredError("the run has no config.yaml, which names its tasks")
    return recipe_from_mapping(run.config)


def speaker_of(recipe: Recipe, point: Point) -> Speaker:
    """The model of a point, in the recipe's compute type and format, without gradients.

    Raises InputError when it cannot be loaded.
    """
    if point.name != "base":
        spec = model_spec(point.path, dtype=recipe.model.dtype, template=recipe.model.template)
        return Speaker(spec, max_rows=ROWS)
    adapter = recipe.model.adapter
    begun = adapter if adapter is not None and adapter.path is not None else None  # a new one changes nothing yet
    changed: dict[str, Any] = {"path": point.path, "adapter": begun}
    return Speaker(ModelSpec.model_validate({**recipe.model.model_dump(), **changed}), max_rows=ROWS)


class Asked:
    """Tasks of a recipe's evaluation, to be asked of several models alike."""

    def __init__(self, recipe: Recipe, most: int, seed: int) -> None:
        self.recipe, self.seed = recipe, seed
        if recipe.evaluation is None:
            raise UnmeasuredError("its recipe has no `evaluation`, which names held-out tasks")
        self.spec: EvaluationSpec = recipe.evaluation
        self.tasks = self._tasks()[:most]

    def _tasks(self) -> list[Task]:
        if self.spec.environment is not None:
            return family_of(self.spec.environment, seed=self.recipe.seed, base=None).tasks()
        assert self.spec.data is not None  # the spec holds one of the two
        return build_tasks(self.spec.data, seed=self.recipe.seed)

    def ask(self, speaker: Speaker, samples: int, temperature: float) -> Evaluation:
        """So many samples of each task. Raises InputError as evaluations do."""
        if self.spec.environment is not None:
            family = family_of(self.spec.environment, seed=self.recipe.seed, base=None)
            played = Played(self.spec.environment, family, self.tasks)
            return attempted(
                speaker, self.recipe, [played], samples=samples, temperature=temperature,
                max_tokens=self.spec.max_tokens, seed=self.seed,
            )[0]  # fmt: skip
        check = Check(self.spec.correct)
        params = SamplingParams(self.spec.max_tokens, temperature=temperature, stop_ids=speaker.format.stop_ids)
        try:
            return finished(
                evaluate(
                    speaker.engine, self.tasks, render=lambda task: prompt_of(speaker.format, task).tokens,
                    text=speaker.decode, params=params, judge=judged_by(check), samples_per_task=samples,
                    seed=self.seed,
                )
            )  # fmt: skip
        finally:
            check.feedback.close()


@dataclass(frozen=True)
class Played:
    """Tasks of a world, to be attempted."""

    world: AnyWorld
    family: Family
    tasks: Sequence[Task]


def attempted(
    speaker: Speaker,
    recipe: Recipe,
    plays: Sequence[Played],
    *,
    samples: int = 1,
    temperature: float = 1.0,
    max_tokens: int = 64,
    seed: int = 0,
) -> list[Evaluation]:
    """Attempts at tasks of worlds, as the recipe plays its episodes; all of them share the engine's batches."""
    params = SamplingParams(max_tokens, temperature=temperature, stop_ids=speaker.format.stop_ids)
    context = Context(speaker.engine, speaker.format, params, seed, Ledger(), role="evaluation")
    episodes = getattr(recipe, "episodes", EpisodesSpec()).model_copy(update={"branch": None})
    setting = setting_of(context, speaker.model)
    stages = [
        Stage.of(play.family, episodes, setting, syntax_of(play.world.calls, speaker.format), refills=0)
        for play in plays
    ]

    async def together() -> list[Evaluation]:
        work = [
            evaluate_attempts(stage, play.tasks, samples_per_task=samples)
            for stage, play in zip(stages, plays, strict=True)
        ]
        return await gathered(work)

    return finished(together())
