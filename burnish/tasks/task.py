"""A task: something to attempt, with the answer kept apart from the prompt."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

from burnish.randomness import stable_hash
from burnish.tasks.answers import Judged, Message, Preference, Shown
from burnish.tasks.faults import Place

__all__ = ["Message", "Task", "Tool"]

Tool = dict[str, Any]
"""A tool's description as chat templates take it: `{"type": "function", "function": {"name", "parameters", ...}}`."""


@dataclass(frozen=True)
class Task:
    """Something to attempt: chat messages or a plain prompt text, exactly one of the two.

    `answer` is private: it is for whoever judges and is never rendered. `columns` is the data row, handed to reward
    functions. What others wrote after the prompt, messages after messages and text after text, is one of three:
    `demonstration`, to imitate; `preference`, answers that are better and worse; `judged`, one answer and whether it is
    good. `tools` are shown to the model with the prompt. `id` is a hash of the content, the same on every machine; it
    is filled in when left empty. `place` is the row it was read from and `part` the part of a mix; neither is content.
    Raises ValueError when the prompt is absent or twice there, or when the content is not JSON.
    """

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    answer: str | None = field(default=None, repr=False)
    demonstration: Shown | None = field(default=None, repr=False)
    preference: Preference | None = field(default=None, repr=False)
    judged: Judged | None = field(default=None, repr=False)
    tools: tuple[Tool, ...] | None = None
    columns: dict[str, Any] = field(default_factory=dict, repr=False)
    domain: str = ""
    seed: int = 0
    difficulty: float | None = None
    id: str = ""
    place: Place | None = field(default=None, compare=False, repr=False)
    part: int = field(default=0, compare=False, repr=False)

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.prompt is None):
            raise ValueError("a task has either messages or a prompt text")
        if not (self.messages or self.prompt):
            raise ValueError("a task needs a prompt that is not empty")
        if any(isinstance(shown, str) == (self.messages is not None) for shown in self.shown):
            raise ValueError("a demonstration or an answer is messages after messages, or text after a prompt text")
        if self.tools is not None and self.messages is None:
            raise ValueError("tools need messages: a prompt text has no way to show them")
        if not self.id:
            object.__setattr__(self, "id", self._content_hash())

    def __hash__(self) -> int:
        return hash(self.id)

    def _content_hash(self) -> str:
        content: list[Any] = [self.messages, self.prompt, self.answer, self.demonstration, self.columns]
        if self.preference or self.judged or self.tools:
            content.append([part and asdict(part) for part in (self.preference, self.judged)] + [self.tools])
        try:
            text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        except TypeError as error:
            raise ValueError(f"a task's content must be JSON values: {error}") from None
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()

    @property
    def shown(self) -> tuple[Shown, ...]:
        """Everything that others wrote after the prompt."""
        found = [] if self.demonstration is None else [self.demonstration]
        found += [] if self.preference is None else self.preference.answers
        return (*found, *([] if self.judged is None else [self.judged.answer]))

    @property
    def named(self) -> str:
        """The row it was read from, or its id: for messages."""
        return f"task {self.id}" if self.place is None else str(self.place)

    @property
    def number(self) -> int:
        """The 64-bit task coordinate of the run's random numbers (`burnish.randomness`)."""
        return stable_hash(self.id)

    @property
    def text(self) -> str:
        """The prompt as a person reads it: the prompt text, or the messages with their roles."""
        if self.messages is None:
            return self.prompt or ""
        if len(self.messages) == 1:
            return str(self.messages[0].get("content") or "")
        return "\n\n".join(f"{m['role']}: {m.get('content') or ''}" for m in self.messages)
