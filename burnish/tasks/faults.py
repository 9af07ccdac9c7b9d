"""What can be wrong with a row of data, by kind, and where the row stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "malformed", "column", "type", "empty", "role", "assistant", "prompt", "preference", "tool", "template", "long",
    "render", "start", "edge", "segments", "duplicate", "near-duplicate",
]  # fmt: skip

KINDS: Mapping[Kind, str] = {
    "malformed": "not one JSON object",
    "column": "a column is missing",
    "type": "a value of the wrong type",
    "empty": "an empty text or list",
    "role": "an unknown role",
    "assistant": "an assistant's turn is missing, or stands where none can",
    "prompt": "there is no prompt",
    "preference": "no answer is better than another",
    "tool": "a tool or a tool call that is none",
    "template": "the model's template refuses the messages",
    "long": "too many tokens",
    "render": "render(prompt) does not begin render(all): the answer would be trained where it is never sampled",
    "start": "the same for every row: the template's prompt is not how its finished turns begin (see `burnish check`)",
    "edge": "render(prompt) + render(answer) != render(all): a token spans the edge; the sampler's tokens are trained",
    "segments": "the template edits history, so each turn is trained in a sequence of its own",
    "duplicate": "the same row again",
    "near-duplicate": "the same prompt and answer again, but for case, spaces and forms of letters",
}
"""What each kind means, in the order in which they are reported."""

WARNINGS: frozenset[Kind] = frozenset({"start", "edge", "segments", "duplicate", "near-duplicate"})
"""Kinds that are told while the row is used; the others are errors."""


class RowError(ValueError):
    """A row that cannot be used: its kind, and what is wrong with the fix, without the place."""

    def __init__(self, kind: Kind, text: str) -> None:
        super().__init__(text)
        self.kind: Kind = kind


@dataclass(frozen=True)
class Place:
    """Where a row stands: `rows.jsonl, line 3`."""

    file: str
    unit: str
    """What is counted: line, item or row."""
    number: int
    """Counted from 1."""

    def __str__(self) -> str:
        return f"{self.file}, {self.unit} {self.number}"


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with one row."""

    place: Place | str
    kind: Kind
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def refusal(faults: Iterable[Fault], *, shown: int = 5) -> str:
    """The first faults, one a line, and how many more there are: the text of an error."""
    every = list(faults)
    lines = [str(fault) for fault in every[:shown]]
    if len(every) > shown:
        lines.append(f"and {len(every) - shown} more rows; `burnish data check` lists them")
    return "\n".join(lines)


def counted(faults: Iterable[Fault]) -> str:
    """How many rows of each kind, with the first: "3 empty (rows.jsonl, line 4, and so on), 1 role (...)"."""
    by_kind: dict[Kind, list[Fault]] = {}
    for fault in faults:
        by_kind.setdefault(fault.kind, []).append(fault)
    return ", ".join(f"{len(found)} {kind} (first {found[0].place})" for kind, found in by_kind.items())
