"""A row as a format reads it: columns by the format's names, checked, every error naming the column and the fix."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass, field
from typing import Any, Literal

from burnish.tasks.answers import Judged, Message, Preference, Shown
from burnish.tasks.faults import RowError
from burnish.tasks.messages import checked_messages, kind_of
from burnish.tasks.spec import COLUMN_KEYS, DataSpec
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Tool
from burnish.tasks.tools import checked_tools

Row = dict[str, Any]
Want = Literal["prompts", "demonstrations", "preferences", "labels"]
"""What a row is read for: prompts to answer, and of what was answered what to imitate, to compare, or to judge."""


@dataclass
class Example:
    """What a format makes of a row: a prompt, and what the rows are read for."""

    prompt: tuple[Message, ...] | str
    system: str | None = None
    tools: tuple[Tool, ...] | None = None
    demonstration: Shown | None = None
    preference: Preference | None = None
    judged: Judged | None = None


@dataclass
class Reader:
    """One row, seen through the names of a format. `used` gathers the names that were looked for and found."""

    row: Row
    spec: DataSpec
    want: Want
    used: set[str] = field(default_factory=set)

    @property
    def chat(self) -> bool:
        """Whether a prompt text becomes a message."""
        return self.spec.style == "chat"

    def has(self, name: str) -> bool:
        """Whether the row has a value there that is not null. A column that data.columns gives as null is none, and
        data.template stands for the prompt."""
        if name == "prompt" and self.spec.template is not None:
            return True
        return self.spec.columns.get(name, name) is not None and self.row.get(self.column(name)) is not None

    def column(self, name: str) -> str:
        """The row's own name of a column."""
        own = getattr(self.spec, name) if name in COLUMN_KEYS else None
        return own or self.spec.columns.get(name) or name

    def value(self, name: str) -> Any:
        """The value of a column. Raises RowError when it is not there."""
        column = self.column(name)
        if column not in self.row:
            key = f" (data.{name})" if name in COLUMN_KEYS else ""
            raise RowError("column", f"no column {column!r}{key}; {did_you_mean(column, self.row)}")
        self.used.add(column)
        return self.row[column]

    def text(self, name: str, *, filled: str = "") -> str:
        """A text. `filled` says what to do about an empty one; without it an empty one will do."""
        value, column = self.value(name), self.column(name)
        if not isinstance(value, str):
            raise RowError("type", f"{column!r} must be a text, not {kind_of(value)}")
        if filled and not value.strip():
            raise RowError("empty", f"{column!r} is empty: {filled}")
        return value

    def optional(self, name: str) -> str | None:
        """A text, or None where the column is absent, null or empty."""
        return (self.text(name) or None) if self.has(name) else None

    def number(self, name: str) -> float:
        """A number. Raises RowError for anything else, true and false included."""
        value = self.value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise RowError("type", f"{self.column(name)!r} must be a number, not {kind_of(value)}")
        return float(value)

    def asked(self, name: str = "prompt") -> tuple[Message, ...] | str:
        """A prompt: a text that is not empty, or messages."""
        value, column = self.value(name), self.column(name)
        if isinstance(value, list):
            return checked_messages(value, column)
        if not isinstance(value, str):
            raise RowError("type", f"{column!r} must be a text or a list of messages, not {kind_of(value)}")
        if not value.strip():
            raise RowError("empty", f"{column!r} is empty: remove the row or write its prompt")
        return value

    def shown(self, name: str, value: Any = None) -> Shown:
        """What was answered: a text (in the chat style a message), or messages beginning with the assistant's.

        `value` is an entry of the column, where it holds several.
        """
        value, column = self.value(name) if value is None else value, self.column(name)
        if isinstance(value, dict):
            value = [value]
        if isinstance(value, list):
            messages = checked_messages(value, column)
            if messages[0]["role"] != "assistant":
                raise RowError(
                    "assistant", f"{column!r} must start with an assistant message, not {messages[0]['role']}"
                )
            return messages
        if not isinstance(value, str):
            raise RowError("type", f"{column!r} must be a text or a list of messages, not {kind_of(value)}")
        if not value.strip():
            raise RowError("empty", f"{column!r} is empty: there is nothing to imitate or to compare; remove the row")
        return self.said(value)

    def asking(self, prompt: tuple[Message, ...] | str) -> tuple[Message, ...] | str:
        """A prompt in the style of the data: a text becomes the user's message, or stays as it is."""
        return ({"role": "user", "content": prompt},) if self.chat and isinstance(prompt, str) else prompt

    def said(self, text: str) -> Shown:
        """An answer's text in the style of the data: a message, or the text."""
        return ({"role": "assistant", "content": text},) if self.chat else text

    def tools(self) -> tuple[Tool, ...] | None:
        """The column `tools`."""
        return checked_tools(self.value("tools"), self.column("tools")) if self.has("tools") else None


def fill(template: str, row: Row) -> str:
    """A template such as "{question} = ?" with the row's columns put in ("{{" stands for a brace).

    Raises RowError when it names a column that is not there, or is not a template.
    """
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise RowError("column", f"data.template {template!r}: {error}; write {{{{ for a brace") from None
    text = []
    for literal, name, layout, conversion in parts:
        text.append(literal)
        if name is None:
            continue
        if layout or conversion:
            raise RowError(
                "column", f"data.template: write {{{name}}} without a format; columns are put in as they are"
            )
        if name not in row:
            raise RowError("column", f"no column {name!r} (data.template); {did_you_mean(name, row)}")
        text.append(row[name] if isinstance(row[name], str) else json.dumps(row[name], ensure_ascii=False))
    return "".join(text)
