"""One evaluation of one model on held-out tasks, outside of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from burnish.feedback.numbers import only_number
from burnish.feedback.numeric import NumericReward
from burnish.methods.recipe import EvaluationSpec
from burnish.models.spec import DtypeName, ModelSpec
from burnish.running.data import evaluation_spec
from burnish.running.keywords import overrides_of
from burnish.running.sync import finished
from burnish.running.talk import Named, Speaker, model_spec
from burnish.studies.evaluation import Evaluation, evaluate, greedy
from burnish.tasks import Task, build_tasks


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
    """Greedy answers of a model to tasks with numeric answers, judged: `.accuracy` and `.format_rate` with intervals.

    `model` is a path as in a recipe, a run's final/ too, or a loaded `Speaker`. `data` is a JSONL file, or family:NAME
    for the held-out items of a generated family. Further keys are those of `evaluation` in a recipe
    (`max_tokens=20`, `data__limit=100`), or `overrides` such as "data.limit=100". `progress` is told (done, of how
    many). Raises InputError for a model that cannot be loaded and for data that cannot be read or judged.
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
    """Greedy answers to every task, judged by the numeric check.

    Raises InputError for a model that cannot be loaded and for data that cannot be read or judged.
    """
    tasks = build_tasks(spec.data, seed=seed, base=base)
    check = NumericReward(spec.correct)
    check.check(tasks)
    speaker = model if isinstance(model, Speaker) else Speaker(model, max_rows=spec.concurrency)
    path = model.path if isinstance(model, ModelSpec) else speaker.model.name

    def render(task: Task) -> list[int]:
        return speaker.format.prompt(task.prompt if task.messages is None else list(task.messages)).tokens

    return finished(
        evaluate(
            speaker.engine,
            tasks,
            render=render,
            text=speaker.decode,
            params=greedy(spec.max_tokens, speaker.format.stop_ids),
            correct=lambda task, answer: check.correct(task.columns, answer, task.id),
            well_formed=lambda task, answer: only_number(answer) is not None,
            name="evaluation",
            seed=seed,
            concurrency=spec.concurrency,
            notes={"model_path": str(path), "template": str(speaker.format.finding)},
            progress=progress,
        )
    )
