"""The report on a file of rows: what was found, by kind, with the first rows of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.tasks.answers import Message, Shown
from burnish.tasks.checking import Room, duplicates, findings
from burnish.tasks.faults import KINDS, WARNINGS, Fault, Kind
from burnish.tasks.readers import Reading
from burnish.tasks.task import Task
from burnish.tasks.tools import names_of
from burnish.traces.templates import Format

SHOWN = 3
"""Rows of each kind that are shown unless more are asked for."""


@dataclass(frozen=True)
class DataReport:
    """What a check of rows found."""

    name: str
    rows: int
    tasks: list[Task]
    """Those that can be used."""
    told: str
    """How the rows were read."""
    faults: list[Fault]
    checked: str = ""
    """What the rows were rendered with; empty where no model was given."""
    by_kind: dict[Kind, list[Fault]] = field(init=False)

    def __post_init__(self) -> None:
        found = {kind: [fault for fault in self.faults if fault.kind == kind] for kind in KINDS}
        object.__setattr__(self, "by_kind", {kind: faults for kind, faults in found.items() if faults})

    @property
    def errors(self) -> int:
        """Rows that cannot be used, each counted once."""
        return len({str(fault.place) for fault in self.faults if fault.kind not in WARNINGS})

    @property
    def warnings(self) -> int:
        """Rows that can be used, with something to be said of them."""
        wrong = {str(fault.place) for fault in self.faults if fault.kind not in WARNINGS}
        return len({str(fault.place) for fault in self.faults} - wrong)

    def text(self, shown: int = SHOWN) -> str:
        """The report for people, with at most `shown` rows of each kind."""
        lines = [f"{self.name}: {_rows(self.rows)}; {self.told}"]
        lines += [self.checked] if self.checked else []
        for kind, faults in self.by_kind.items():
            what = "warning" if kind in WARNINGS else "error"
            lines.append(f"{what} ({kind}), {_rows(len(faults))}: {KINDS[kind]}")
            lines += [f"  {fault}" for fault in faults[:shown]]
            lines += [f"  and {len(faults) - shown} more"] if len(faults) > shown else []
        usable = _rows(self.rows - self.errors)
        lines.append(f"{usable} can be used, {self.errors} cannot; {self.warnings} with a warning")
        return "\n".join(lines)

    def summary(self, shown: int = SHOWN) -> dict[str, Any]:
        """The report as JSON values, with at most `shown` rows of each kind."""
        kinds = {
            kind: {
                "severity": "warning" if kind in WARNINGS else "error", "meaning": KINDS[kind], "count": len(faults),
                "first": [{"row": str(fault.place), "text": fault.text} for fault in faults[:shown]],
            }
            for kind, faults in self.by_kind.items()
        }  # fmt: skip
        return {
            "name": self.name, "rows": self.rows, "read": self.told, "model": self.checked, "errors": self.errors,
            "warnings": self.warnings, "kinds": kinds,
        }  # fmt: skip


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def report_on(reading: Reading, *, format: Format | None = None, room: Room | None = None) -> DataReport:
    """Check what was read: duplicates always, and with a model's format every rendering, and its length against `room`.

    A row that cannot be rendered is no task of the report.
    """
    faults = [*reading.faults, *duplicates(reading.tasks)]
    checked = ""
    if format is not None:
        room = room or Room(None, "no limit")
        faults += findings(reading.tasks, format, room)
        limit = f"; {room.what}: {room.tokens} tokens" if room.tokens is not None else ""
        checked = f"rendered with the model's format{limit}. {format.finding}"
    wrong = {str(fault.place) for fault in faults if fault.kind not in WARNINGS}
    tasks = [task for task in reading.tasks if str(task.place or task.named) not in wrong]
    return DataReport(reading.name, reading.rows, tasks, reading.told, _in_order(faults), checked)


def _in_order(faults: Sequence[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: (list(KINDS).index(fault.kind), getattr(fault.place, "number", 0)))


def described(task: Task) -> str:
    """A task as a person reads it: its prompt, tools, answer, and what others wrote after it."""
    lines = [f"prompt: {task.text}"]
    lines += [f"tools: {', '.join(names_of(task.tools))}"] if task.tools else []
    lines += [f"answer: {task.answer}"] if task.answer is not None else []
    lines += [f"demonstration: {_said(task.demonstration)}"] if task.demonstration is not None else []
    if task.preference is not None:
        margin = task.preference.margin
        lines.append(f"chosen: {_said(task.preference.chosen)}")
        lines += [f"between: {_said(answer)}" for answer in task.preference.answers[1:-1]]
        lines.append(f"rejected: {_said(task.preference.rejected)}" + (f" (margin {margin:g})" if margin else ""))
    if task.judged is not None:
        lines.append(f"{'good' if task.judged.good else 'bad'} answer: {_said(task.judged.answer)}")
    return "\n".join(lines)


def _said(shown: Shown) -> str:
    if isinstance(shown, str):
        return shown
    if len(shown) == 1 and not shown[0].get("tool_calls"):
        return str(shown[0]["content"])
    return "\n\n".join(f"{m['role']}: {m.get('content') or ''}{_calls(m)}" for m in shown)


def _calls(message: Message) -> str:
    calls = [call["function"] for call in message.get("tool_calls") or ()]
    return "".join(
        f" [calls {call['name']}({json.dumps(call.get('arguments', {}), ensure_ascii=False)})]" for call in calls
    )
