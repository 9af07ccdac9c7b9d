"""Rows that a reward cannot judge: refused, or left out where the data says so. No torch here."""

from __future__ import annotations

from burnish.errors import InputError, note
from burnish.feedback.judge import Feedback
from burnish.tasks import Task
from burnish.tasks.spec import DataSpec
from burnish.tasks.training import TrainingDataSpec


def judgeable(tasks: list[Task], feedback: Feedback, data: DataSpec | None) -> list[Task]:
    """The tasks that the rewards can judge; with `on_bad_row: skip` the others are left out and told of.

    Raises InputError naming the task and the column otherwise, and when none is left.
    """
    parts = data.parts if isinstance(data, TrainingDataSpec) else [data] if data is not None else []
    skipped = {number for number, part in enumerate(parts) if part.on_bad_row == "skip"}
    try:
        feedback.check(tasks)
        return tasks
    except InputError:
        if not skipped:
            raise
    feedback.check([task for task in tasks if task.part not in skipped])
    refused = {task.id: why for task in tasks if task.part in skipped and (why := _refusal(task, feedback))}
    kept = [task for task in tasks if task.id not in refused]
    first = next(iter(refused.values()), "")
    if not kept:
        raise InputError(f"none of the {len(tasks)} rows can be judged; the first: {first}")
    note(
        f"{len(refused)} of {len(tasks)} rows cannot be judged and are left out (data.on_bad_row: skip); the first: "
        f"{first}"
    )
    return kept


def _refusal(task: Task, feedback: Feedback) -> str | None:
    try:
        feedback.check([task])
    except InputError as error:
        return str(error)
    return None
