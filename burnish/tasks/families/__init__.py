"""Generated families: tasks without end whose answers are known exactly."""

from __future__ import annotations

import importlib

from burnish.tasks.families.spec import AnyFamily
from burnish.tasks.task import Task


def family_tasks(
    spec: AnyFamily, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The tasks of whichever family: chat messages, or prompt texts with `chat=False`.

    With `demonstrations` each carries its answer as what to imitate. Raises InputError when the family does not hold as
    many as are wanted.
    """
    home = importlib.import_module(f"burnish.tasks.families.{spec.kind}")  # a family is imported when it is asked for
    tasks = getattr(home, f"{spec.kind}_tasks")
    return tasks(spec, seed=seed, chat=chat, system=system, demonstrations=demonstrations)
