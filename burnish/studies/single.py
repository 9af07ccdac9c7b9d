"""One evaluation of one model on held-out tasks, outside of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.environments.spec import AnyWorld
from burnish.feedback.checking import Check
from burnish.ledger import Ledger
from burnish.methods.recipe import EvaluationSpec
from burnish.models.spec import DtypeName, ModelSpec
from burnish.running.acting import family_of, greedy_context, trial_of
from burnish.running.data import evaluation_spec
from burnish.running.keywords import overrides_of
from burnish.running.sync import finished
from burnish.running.talk import Named, Speaker, model_spec
from burnish.sources.spec import EpisodesSpec
from burnish.studies.acting import evaluate_attempts
from burnish.studies.evaluation import Evaluation, evaluate, greedy
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
    progress: Callable[[int, int], None] | None = None,
    **keys: Any,
) -> Evaluation:
    """Greedy answers of a model to tasks, judged: `.accuracy` and `.format_rate` with intervals.

    `model` is a path as in a recipe, a run's final/ too, or a loaded `Speaker`. `data` is a JSONL file, or family:NAME
    for the held-out items of a generated family. Further keys are those of `evaluation` in a recipe
    (`max_tokens=20`, `data__limit=100`, `correct="math"`), or `overrides` such as "data.limit=100". `progress` is told
    (done, of how many). Raises InputError for a model that cannot be loaded and for data that cannot be read or judged.
    """
    spec = evaluation_spec(data, [*overrides, *overrides_of(keys)])
    if isinstance(model, (str, Path)):
        model = model_spec(str(model), dtype=dtype)
    return evaluate_model(model, spec, seed=seed, progress=progress)


def evaluate_model(
    model: Named,
    spec: EvaluationSpec,
    *,
    seed: int = 0,
    base: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Greedy answers to every task, judged by the check that the spec names.

    Raises InputError for a model that cannot be loaded and for data that cannot be read or judged.
    """
    if spec.environment is not None:
        return _evaluate_in_world(model, spec, spec.environment, seed, progress)
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
                params=greedy(spec.max_tokens, speaker.format.stop_ids),
                judge=judged_by(check),
                name="evaluation",
                seed=seed,
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
    world: AnyWorld,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Evaluation:
    """Greedy attempts at the tasks of a world."""
    speaker = model if isinstance(model, Speaker) else Speaker(model, max_rows=spec.concurrency)
    path = model.path if isinstance(model, ModelSpec) else speaker.model.name
    family = family_of(world, seed=seed, base=None)
    context = greedy_context(speaker.engine, speaker.format, spec.max_tokens, seed, Ledger())
    stage = trial_of(world, family, EpisodesSpec(), context, speaker.model)
    notes = {"model_path": str(path), "template": str(speaker.format.finding), "world": world.model_dump(mode="json")}
    work = evaluate_attempts(stage, family.tasks(), concurrency=spec.concurrency, notes=notes, progress=progress)
    return finished(work)
