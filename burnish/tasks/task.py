"""A task: something to attempt, with the answer kept apart from the prompt."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from burnish.randomness import stable_hash

Message = dict[str, Any]
"""A chat message as templates take it: role, content, and for tools also tool_calls, tool_call_id, name."""


@dataclass(frozen=True)
class Task:
    """Something to attempt: chat messages or a plain prompt text, exactly one of the two.

    `answer` is private: it is for whoever judges and is never rendered. `columns` is the data row, handed to reward
    functions. `demonstration` is what a teacher wrote after the prompt: messages after messages, text after text.
    `id` is a hash of the content, the same on every machine; it is filled in when left empty. Raises ValueError when
    the prompt is absent or twice there, or when the content is not JSON.
    """

    messages: tuple[Message, ...] | None = None
    prompt: str | None = None
    answer: str | None = field(default=None, repr=False)
    demonstration: tuple[Message, ...] | str | None = field(default=None, repr=False)
    columns: dict[str, Any] = field(default_factory=dict, repr=False)
    domain: str = ""
    seed: int = 0
    difficulty: float | None = None
    id: str = ""

    def __post_init__(self) -> None:
        if (self.messages is None) == (self.prompt is None):
            raise ValueError("a task has either messages or a prompt text")
        if not (self.messages or self.prompt):
            raise ValueError("a task needs a prompt that is not empty")
        if self.demonstration is not None and isinstance(self.demonstration, str) == (self.messages is not None):
            raise ValueError("a demonstration is messages after messages, or text after a prompt text")
        if not self.id:
            object.__setattr__(self, "id", self._content_hash())

    def __hash__(self) -> int:
        return hash(self.id)

    def _content_hash(self) -> str:
        content = [self.messages, self.prompt, self.answer, self.demonstration, self.columns]
        try:
            text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        except TypeError as error:
            raise ValueError(f"a task's content must be JSON values: {error}") from None
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=10).hexdigest()

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
