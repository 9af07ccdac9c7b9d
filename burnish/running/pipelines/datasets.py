"""Datasets of groups in a folder: traces/part-*.parquet, and rows.jsonl with one row a sample.

The traces hold the tokens as they were sampled; the rows are for whoever reads texts, so that training on
demonstrations reads them as any other file. Both are written in parts, so that an interrupted node goes on after its
last whole part. No torch here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.tasks import Task
from burnish.traces import Group, Span
from burnish.traces.files import atomic_path
from burnish.traces.store import read_groups, write_groups

ROWS = "rows.jsonl"
_PART = re.compile(r"part-(\d+)\.parquet")
_PROMPT, _TEXT = "prompt", "text"
_WRITTEN = ("prompt", "messages", "system", "completion", "reward")
"""Columns that a row has from the sample; a task's own columns of these names make way."""


def note_prompt(group: Group, task: Task) -> None:
    """Keep a task's prompt with its samples: a text, or messages."""
    for trace in group.traces:
        trace.meta[_PROMPT] = task.prompt if task.messages is None else list(task.messages)


def note_text(span: Span, text: str) -> None:
    """Keep what a sample says, for judges and rows; it never becomes tokens again (promise E6)."""
    span.trace.nodes[span.leaf].meta[_TEXT] = text


def text_of(span: Span) -> str:
    """What a sample says. Raises InputError for a dataset that no pipeline wrote."""
    try:
        return span.trace.nodes[span.leaf].meta[_TEXT]
    except KeyError:
        raise InputError(f"sample {span.trace.id} has no text: the dataset was not made by a `sample` node") from None


def truncated(span: Span) -> bool:
    """Whether a sample was cut off."""
    return span.trace.nodes[span.leaf].meta.get("finish") != "stop"


class Dataset:
    """A dataset in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, number: int) -> Path:
        """The file of a part, counted from 0."""
        return self.folder / "traces" / f"part-{number:06d}.parquet"

    def parts(self) -> list[int]:
        """The numbers of the parts that are there, in order."""
        names = (_PART.fullmatch(file.name) for file in (self.folder / "traces").glob("part-*.parquet"))
        return sorted(int(name[1]) for name in names if name)

    def read(self, number: int) -> list[Group]:
        """The groups of a part. Raises InputError when the file is missing or damaged."""
        return read_groups(self.part(number))

    def write(self, number: int, groups: Sequence[Group]) -> None:
        """Write a part, whole or not at all."""
        write_groups(self.part(number), groups)

    def write_rows(self) -> int:
        """Write rows.jsonl from the parts, last of all; how many rows it has."""
        count = 0
        with atomic_path(self.folder / ROWS) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
            for row in self._rows():
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                count += 1
        return count

    def _rows(self) -> Iterator[dict[str, Any]]:
        for number in self.parts():
            for group in self.read(number):
                for member in group.members:
                    yield row_of(group, member)


def row_of(group: Group, member: Span) -> dict[str, Any]:
    """A sample as a row: prompt (a text or messages), completion, reward where it was judged, the task's columns."""
    row = {
        "prompt": member.trace.meta[_PROMPT],
        "completion": text_of(member),
        **{name: value for name, value in group.columns.items() if name not in _WRITTEN},
    }
    if member.verdict is not None:
        row["reward"] = member.verdict.reward
    return row
