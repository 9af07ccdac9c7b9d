"""From what a recipe says to a list of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from burnish.errors import InputError
from burnish.tasks.choosing import within_window
from burnish.tasks.families import family_tasks
from burnish.tasks.formats.reader import Want
from burnish.tasks.readers import read_origin, usable_tasks
from burnish.tasks.spec import DataSpec
from burnish.tasks.task import Task
from burnish.tasks.training import TrainingDataSpec


@dataclass(frozen=True)
class Data:
    """Tasks in the order in which they are attempted, and how they were read, in lines for people."""

    tasks: list[Task]
    told: list[str] = field(default_factory=list)


def build_tasks(spec: DataSpec, *, seed: int = 0, demonstrations: bool = False, base: Path | None = None) -> list[Task]:
    """The tasks a spec describes, in the order in which they are attempted.

    `seed` is the run's, used where the spec has none of its own. With `demonstrations` each task also carries what
    to imitate. A relative path is taken from `base` (the current folder by default). Raises InputError naming the
    file, the line or the key, and the fix.
    """
    return read_data(spec, seed=seed, want="demonstrations" if demonstrations else "prompts", base=base).tasks


def read_data(spec: DataSpec, *, seed: int = 0, want: Want = "prompts", base: Path | None = None) -> Data:
    """As `build_tasks`, read for whatever a method wants, and with what is to be told of it.

    The tasks of a mix are those of its parts, one part after the other; a window over recorded pass rates has left some
    out.
    """
    if not isinstance(spec, TrainingDataSpec):
        return _origin(spec, seed, want, base)
    read = [_origin(part, seed, want, base) for part in spec.parts]
    told = [f"mix.{i}: {line}" if spec.mix else line for i, data in enumerate(read) for line in data.told]
    tasks = _told_apart(
        [replace(t, part=i) for i, data in enumerate(read) for t in data.tasks] if spec.mix else read[0].tasks
    )
    if spec.window is not None and spec.window.column is not None:
        tasks, line = within_window(tasks, spec.window)
        told.append(line)
    return Data(tasks, told)


def _told_apart(tasks: Sequence[Task]) -> list[Task]:
    """Tasks that stand in several parts of a mix get ids of their own: random numbers are drawn by id."""
    seen: dict[str, int] = {}
    found = []
    for task in tasks:
        times = seen[task.id] = seen.get(task.id, 0) + 1
        found.append(task if times == 1 else replace(task, id=f"{task.id}+{times}"))
    return found


def _origin(spec: DataSpec, seed: int, want: Want, base: Path | None) -> Data:
    seed = seed if spec.seed is None else spec.seed
    if spec.family is None:
        reading = read_origin(spec, want=want, base=base)
        tasks = usable_tasks(reading, spec, seed=seed)
        return Data(tasks, [f"{reading.name}: {reading.told}"])
    if want not in ("prompts", "demonstrations"):
        raise InputError(f"data.family: generated tasks hold prompts and demonstrations, not {want}; give rows")
    return Data(
        family_tasks(
            spec.family, seed=seed, chat=spec.style == "chat", system=spec.system,
            demonstrations=want == "demonstrations",
        )
    )  # fmt: skip
