"""Choosing tasks by a number that the data has: a recorded pass rate, a difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnish.errors import InputError
from burnish.tasks.faults import Fault, refusal
from burnish.tasks.messages import kind_of
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Task
from burnish.tasks.training import StageSpec, WindowSpec

DIFFICULTY = "difficulty"
"""The column that a curriculum reads when it names none and a task has no difficulty of its own."""


def within_window(tasks: Sequence[Task], window: WindowSpec) -> tuple[list[Task], str]:
    """The tasks whose recorded pass rate lies in a window, and a line about how many those are.

    Raises InputError naming the rows without a rate, and when no task is left.
    """
    assert window.column is not None  # otherwise there is nothing recorded
    rates = numbers(tasks, window.column, "data.window.column")
    if odd := [i for i, rate in enumerate(rates) if not 0 <= rate <= 1]:
        raise InputError(f"{tasks[odd[0]].named}: {window.column!r} is {rates[odd[0]]:g}, no pass rate between 0 and 1")
    kept = [task for task, rate in zip(tasks, rates, strict=True) if window.low <= rate <= window.high]
    span = f"{window.column} in {window.low:g} to {window.high:g}"
    if not kept:
        raise InputError(
            f"data.window: no task has {span}; the rates lie between {min(rates):g} and {max(rates):g}: widen it"
        )
    return kept, f"window: {len(kept)} of {len(tasks)} tasks have {span}"


def numbers(tasks: Sequence[Task], column: str, key: str) -> list[float]:
    """A column's numbers, one for each task. Raises InputError naming the rows that have none."""
    faults = []
    found = []
    for task in tasks:
        value = task.columns.get(column)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            faults.append(Fault(task.place or task.named, "column", _lacking(task.columns, column, key)))
        else:
            found.append(float(value))
    if faults:
        raise InputError(refusal(faults))
    return found


def _lacking(columns: dict[str, Any], column: str, key: str) -> str:
    if column not in columns:
        return f"no column {column!r} ({key}); {did_you_mean(column, columns)}"
    return f"{column!r} ({key}) must be a number, not {kind_of(columns[column])}"


def difficulties(tasks: Sequence[Task], column: str | None) -> list[float]:
    """How difficult each task is. Raises InputError naming the tasks of which nothing is known."""
    if column is None and all(task.difficulty is not None for task in tasks):
        return [float(task.difficulty or 0.0) for task in tasks]
    if column is None:
        own = [task.difficulty is None for task in tasks]
        rest = iter(
            numbers([t for t, lacks in zip(tasks, own, strict=True) if lacks], DIFFICULTY, "data.curriculum.column")
        )
        return [next(rest) if task.difficulty is None else task.difficulty for task in tasks]
    return numbers(tasks, column, "data.curriculum.column")


def in_stage(tasks: Sequence[Task], difficulty: Sequence[float], stage: StageSpec) -> list[Task]:
    """The tasks of a stage, by their difficulties."""
    return [
        task
        for task, value in zip(tasks, difficulty, strict=True)
        if (stage.low is None or value >= stage.low) and (stage.high is None or value <= stage.high)
    ]
