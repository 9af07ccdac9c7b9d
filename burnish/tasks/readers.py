"""From rows to tasks: the format found, every row read, every fault kept with its place."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from burnish.errors import InputError, note
from burnish.randomness import counter_generator, stable_hash
from burnish.tasks.answers import Message
from burnish.tasks.faults import Fault, Place, RowError, counted, refusal
from burnish.tasks.formats.detect import Detected, detect
from burnish.tasks.formats.reader import Example, Reader, Want
from burnish.tasks.messages import kind_of
from burnish.tasks.rows import Rows, open_rows
from burnish.tasks.spec import ANSWER, DataSpec
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Task
from burnish.tasks.tools import check_names

_SHUFFLE = stable_hash("burnish.tasks.readers/shuffle")


@dataclass(frozen=True)
class Reading:
    """What was read of one origin: its tasks in order, and what is wrong with the rows that are none."""

    name: str
    tasks: list[Task]
    faults: list[Fault]
    rows: int
    detected: Detected | None
    """None for generated tasks."""
    told: str
    """The format and the columns, for people."""


def read_origin(spec: DataSpec, *, want: Want | None, base: Path | None = None) -> Reading:
    """Read every row of a spec's `path` or `hub`. Repeated rows are kept, with ids of their own.

    `want` None reads the rows for the most that they hold. Raises InputError for an origin that cannot be read, and
    where the format cannot be told; what is wrong with single rows is in `faults`.
    """
    rows = open_rows(spec, base)
    found = detect(rows.listed, spec, want)
    tasks: list[Task] = []
    faults: list[Fault] = []
    used: set[str] = set()
    seen: dict[str, int] = {}
    formats: Counter[str] = Counter()
    for place, row in rows.listed:
        try:
            if isinstance(row, RowError):
                raise row
            reader = Reader(row, spec, found.want)
            layout = found.layout_of(row, spec)
            task = _task(reader, layout.read(reader), place)
        except ValueError as error:
            faults.append(Fault(place, error.kind if isinstance(error, RowError) else "type", str(error)))
            continue
        used |= reader.used
        formats[layout.name] += 1
        times = seen[task.id] = seen.get(task.id, 0) + 1
        tasks.append(task if times == 1 else replace(task, id=f"{task.id}-{times}"))
    return Reading(rows.name, tasks, faults, len(rows.listed), found, _told(rows, found, used, formats))


def _told(rows: Rows, found: Detected, used: set[str], formats: Counter[str]) -> str:
    """How the rows were read, and which columns were not: rewards may still ask for these."""
    others = {name for _, row in rows.listed if not isinstance(row, RowError) for name in row} - used
    parts = [f"{found.how}; read for {found.want}"]
    parts += [f"{count} rows have format {name}" for name, count in formats.items() if name != found.layout.name]
    if others:
        parts.append(f"other columns: {', '.join(sorted(others))}")
    if rows.left_out:
        parts.append(f"columns of bytes, left out: {', '.join(sorted(rows.left_out))}")
    return "; ".join(parts)


def usable_tasks(reading: Reading, spec: DataSpec, *, seed: int) -> list[Task]:
    """The tasks of a reading in the order in which they are attempted: shuffled and limited as the spec says.

    Rows that cannot be used are refused, or left out and told of with `on_bad_row: skip`; repeated ones are told of.
    Raises InputError naming the rows, or when none is left.
    """
    if reading.faults and spec.on_bad_row == "error":
        raise InputError(refusal(reading.faults))
    if not reading.tasks:
        raise InputError(f"{reading.name}: none of the {reading.rows} rows can be used: {counted(reading.faults)}")
    if reading.faults:
        note(
            f"{reading.name}: {len(reading.faults)} of {reading.rows} rows cannot be used and are left out "
            f"(data.on_bad_row: skip): {counted(reading.faults)}"
        )
    tasks = reading.tasks
    if repeats := [task for task in tasks if "-" in task.id]:
        note(
            f"{reading.name}: {len(repeats)} of {len(tasks)} rows repeat an earlier row (the first on "
            f"{_in_file(repeats[0])}); all are kept"
        )
    if spec.shuffle:
        tasks = [tasks[i] for i in counter_generator(seed, _SHUFFLE).permutation(len(tasks))]
    return tasks[: spec.limit]


def _in_file(task: Task) -> str:
    return task.id if task.place is None else f"{task.place.unit} {task.place.number}"


def _task(reader: Reader, example: Example, place: Place) -> Task:
    """A row's example as a task. Raises RowError with what is wrong and the fix."""
    spec, prompt = reader.spec, reader.asking(example.prompt)
    shown = {"demonstration": example.demonstration, "preference": example.preference, "judged": example.judged}
    rest = {"answer": _answer(reader), "columns": reader.row, "place": place, **shown}
    if isinstance(prompt, str):
        for what, column in ((example.system, "a system message"), (example.tools, "tools")):
            if what is not None:
                raise RowError("type", f"the row has {column}, and a text has no place for that: use `style: chat`")
        return Task(prompt=prompt, **rest)
    if not reader.chat:
        raise RowError("type", "the prompt is a list of messages, but data.style is text; use `style: chat`")
    if prompt[-1]["role"] == "assistant":
        raise RowError(
            "assistant",
            "the prompt ends with an assistant message; remove it, or train on it with a supervised method",
        )
    task = Task(messages=_with_system(spec, prompt, example.system), tools=example.tools, **rest)
    for answer in task.shown:
        check_names([*prompt, *(answer if isinstance(answer, tuple) else ())], task.tools)
    return task


def _answer(reader: Reader) -> str | None:
    """The private answer. Raises RowError for one that is no text and no number."""
    name, row = reader.spec.answer, reader.row
    if name is None or (name not in row and name == ANSWER):
        return None
    if name not in row:
        raise RowError("column", f"no column {name!r} (data.answer); {did_you_mean(name, row)}")
    value = row[name]
    reader.used.add(name)
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise RowError(
            "type",
            f"{name!r} must be a text or a number, not {kind_of(value)}; name another column in data.answer, "
            "or write `answer: null` when the rows have none",
        )
    if isinstance(value, str) and not value.strip():
        raise RowError("empty", f"{name!r} is empty: remove the row or write its answer")
    return value if isinstance(value, str) else json.dumps(value)


def _with_system(spec: DataSpec, messages: tuple[Message, ...], own: str | None) -> tuple[Message, ...]:
    """The messages with the row's own system message before them, or the recipe's."""
    has = messages[0]["role"] in ("system", "developer")
    if has and own is not None:
        raise RowError("type", "the row has two system messages, one in its column and one in its messages; remove one")
    if spec.system is not None and (has or own is not None):
        raise RowError(
            "type", "the row has a system message of its own, which data.system would shadow; remove one of them"
        )
    system = own or spec.system
    return messages if system is None else ({"role": "system", "content": system}, *messages)
