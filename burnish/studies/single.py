"""One evaluation of one model on held-out tasks, outside of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from burnish.feedback.numbers import only_number
from burnish.feedback.numeric import NumericReward
from burnish.methods.recipe import EvaluationSpec
from burnish.models.spec import ModelSpec
from burnish.running.talk import Speaker
from burnish.studies.evaluation import Evaluation, evaluate, greedy
from burnish.tasks import Task, build_tasks


def evaluate_model(
    model: ModelSpec,
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
    speaker = Speaker(model, max_rows=spec.concurrency)

    def render(task: Task) -> list[int]:
        return speaker.format.prompt(task.prompt if task.messages is None else list(task.messages)).tokens

    return asyncio.run(
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
            notes={"model_path": model.path, "template": str(speaker.format.finding)},
            progress=progress,
        )
    )
