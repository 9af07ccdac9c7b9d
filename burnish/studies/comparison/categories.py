"""Categories of held-out tasks: what tells them apart is a column. No torch here."""

from __future__ import annotations

from burnish.environments.registry import build as build_world
from burnish.errors import InputError
from burnish.methods.recipe import EvaluationSpec, Recipe
from burnish.studies.comparison.spec import StudySpec
from burnish.tasks import Task, build_tasks
from burnish.tasks.suggest import did_you_mean

EVERYTHING = "all"
"""The one category of held-out tasks that are not told apart."""


def categories(column: str | None, recipe: Recipe) -> dict[str, str]:
    """Held-out task -> its category, by a column of the tasks. Raises InputError where a task has no such column."""
    evaluation = recipe.evaluation
    assert evaluation is not None  # a study puts one in
    tasks = _held_out(evaluation, recipe.seed)
    return {task.id: _category(task, column) for task in tasks}


def _held_out(evaluation: EvaluationSpec, seed: int) -> list[Task]:
    if evaluation.environment is not None:
        return build_world(evaluation.environment, seed=seed).tasks()
    assert evaluation.data is not None  # the spec holds one of the two
    return build_tasks(evaluation.data, seed=seed)


def _category(task: Task, column: str | None) -> str:
    if column is None:
        return EVERYTHING
    found = {"difficulty": task.difficulty, "domain": task.domain or None, **task.columns}.get(column)
    if found is None:
        raise InputError(f"test.category: a held-out task has no column {column!r}; it has: {', '.join(task.columns)}")
    return f"{found:g}" if isinstance(found, float) else str(found)


def check_categories(spec: StudySpec, recipe: Recipe, file: str) -> None:
    """Raise InputError for a category that no held-out task has; `recipe` is that of any cell."""
    try:
        known = sorted(set(categories(spec.test.category, recipe).values()))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    for name, task in spec.tasks.items():
        for wanted in task.categories or ():
            if wanted not in known:
                raise InputError(
                    f"{file}: tasks.{name}.categories: no held-out task has {spec.test.category} {wanted!r}; "
                    f"{did_you_mean(wanted, known)}"
                )
