"""Generated families: tasks without end whose answers are known exactly."""

from __future__ import annotations

from burnish.tasks.families.spec import AnyFamily, ProgramsSpec, RecordsSpec
from burnish.tasks.task import Task


def family_tasks(
    spec: AnyFamily, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The tasks of whichever family: chat messages, or prompt texts with `chat=False`.

    With `demonstrations` each carries its answer as what to imitate. Raises InputError when the family does not hold as
    many as are wanted.
    """
    if isinstance(spec, ProgramsSpec):
        from burnish.tasks.families.programs import programs_tasks as tasks
    elif isinstance(spec, RecordsSpec):
        from burnish.tasks.families.records import records_tasks as tasks
    else:
        from burnish.tasks.families.arithmetic import arithmetic_tasks as tasks
    return tasks(spec, seed=seed, chat=chat, system=system, demonstrations=demonstrations)  # pyright: ignore
