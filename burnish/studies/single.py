"""One evaluation of one model on held-out tasks, outside of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.environments.spec import AnyEnvironment
from burnish.feedback.checking import Check
from burnish.ledger import Ledger
from burnish.methods.recipe import EvaluationSpec
from burnish.models.spec import DtypeName, ModelSpec
from burnish.running.acting import evaluation_context, family_of, trial_of
from burnish.running.data import evaluation_spec
from burnish.running.keywords import overrides_of
from burnish.running.sync import finished
from burnish.running.talk import Named, Speaker, model_spec
from burnish.sources.spec import EpisodesSpec
from burnish.studies.acting import evaluate_attempts
from burnish.studies.evaluation import Evaluation, evaluate
from burnish.studies.judging import judged_by
from burnish.tasks import Task, build_tasks
from burnish.tasks.rendering import prompt_of


def evaluate_by_name(
    model: Named,
    data: str | Path = "family:arithmetic",
    overrides: Sequence[str] = (),
    *,
    seed: int = 0,
    dtype: DtypeName = "auto",
    template: str = "auto",
    progress: Callable[[int, int], None] | None = None,
    **keys: Any,
) -> Evaluation:
    """Answers of a model to tasks, judged: `.accuracy` and `.format_rate` with intervals. By default greedy ones.

    `model` is a path as in a recipe, a run's final/ too, or a loaded `Speaker`. `data` is a JSONL file, or family:NAME
    for the held-out items of a generated family. Further keys are those of `evaluation` in a recipe
    (`max_tokens=20`, `data__limit=100`, `correct="math"`, `samples=8` with `temperature=1`), or `overrides` such as
    "data.limit=100". `dtype` and `template` (auto, plain, or a Jinja file) are for a path. `progress` is told (done, of
    how many). `burnish.studies.suite.evaluate_tasks` takes several tasks. Raises InputError for a model that cannot be
    loaded, a template that cannot be used, and data that cannot be read or judged.
    """
    spec = evaluation_spec(data, [*overrides, *overrides_of(keys)])
    if isinstance(model, (str, Path)):
        model = model_spec(str(model), dtype=dtype, template=template)
    return evaluate_model(model, spec, seed=seed, progress=progress)


def evaluate_model(
    model: Named,
    spec: EvaluationSpec,
    *,
    name: str = "evaluation",
    environment: AnyEnvironment | None = None,
    episodes: EpisodesSpec | None = None,
    seed: int = 0,
    base: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Answers to every task as the spec says, judged by its check, or attempts in its world.

    `environment` is where the spec's own data is attempted, as a recipe with an environment of the user's has it; its
    attempts follow `episodes`. Raises InputError for a model that cannot be loaded and for data that cannot be read or
    judged.
    """
    world = spec.environment or environment
    if world is not None:
        return _evaluate_in_world(model, spec, world, episodes or EpisodesSpec(), name, seed, base, progress)
    assert spec.data is not None  # the spec holds one of the two
    tasks = build_tasks(spec.data, seed=seed, base=base)
    check = Check(spec.correct, base)
    check.feedback.check(tasks)
    speaker = model if isinstance(model, Speaker) else Speaker(model, max_rows=spec.concurrency)
    path = model.path if isinstance(model, ModelSpec) else speaker.model.name

    def render(task: Task) -> list[int]:
        return prompt_of(speaker.format, task).tokens

    try:
        found = finished(
            evaluate(
                speaker.engine,
                tasks,
                render=render,
                text=speaker.decode,
                params=spec.sampling.params(speaker.format.stop_ids),
                judge=judged_by(check),
                name=name,
                seed=seed,
                samples_per_task=spec.samples,
                concurrency=spec.concurrency,
                notes={"model_path": str(path), "template": str(speaker.format.finding)},
                progress=progress,
            )
        )
        check.feedback.settle()
    finally:
        check.feedback.close()
    return found


def _evaluate_in_world(
    model: Named,
    spec: EvaluationSpec,
    world: AnyEnvironment,
    episodes: EpisodesSpec,
    name: str,
    seed: int,
    base: Path | None,
    progress: Callable[[int, int], None] | None,
) -> Evaluation:
    """Attempts at the tasks of a world, or at the spec's data in an environment of the user's."""
    tasks = [] if spec.data is None else build_tasks(spec.data, seed=seed, base=base)
    family = family_of(world, seed=seed, base=base, tasks=tasks)
    speaker = model if isinstance(model, Speaker) else Speaker(model, max_rows=spec.concurrency)
    path = model.path if isinstance(model, ModelSpec) else speaker.model.name
    context = evaluation_context(speaker.engine, speaker.format, spec, seed, Ledger())
    stage = trial_of(world, family, episodes, context, speaker.model)
    notes = {"model_path": str(path), "template": str(speaker.format.finding), "world": world.model_dump(mode="json")}
    work = evaluate_attempts(
        stage, family.tasks(), name=name, samples_per_task=spec.samples, concurrency=spec.concurrency, notes=notes,
        progress=progress,
    )  # fmt: skip
    return finished(work)
