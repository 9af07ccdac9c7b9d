"""From what a recipe says to a list of tasks."""

from __future__ import annotations

from pathlib import Path

from burnish.tasks.families.arithmetic import arithmetic_tasks
from burnish.tasks.readers import read_tasks
from burnish.tasks.spec import DataSpec
from burnish.tasks.task import Task


def build_tasks(spec: DataSpec, *, seed: int = 0, demonstrations: bool = False, base: Path | None = None) -> list[Task]:
    """The tasks a spec describes, in the order in which they are attempted.

    `seed` is the run's, used where the spec has none of its own. With `demonstrations` each task also carries what
    to imitate. A relative path is taken from `base` (the current folder by default). Raises InputError naming the
    file, the line or the key, and the fix.
    """
    seed = seed if spec.seed is None else spec.seed
    if spec.family is not None:
        return arithmetic_tasks(
            spec.family, seed=seed, chat=spec.style == "chat", system=spec.system, demonstrations=demonstrations
        )
    assert spec.path is not None  # the spec holds one of the two
    path = (base or Path()) / Path(spec.path).expanduser()
    return read_tasks(spec, path, seed=seed, demonstrations=demonstrations)
