"""Raw text instead of a chat template: for base models and for tokenizers that have none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from burnish.errors import InputError
from burnish.traces.templates.finding import Finding, TurnEnd
from burnish.traces.templates.forms import Forms
from burnish.traces.templates.official import Message, Tokenizer, Tool
from burnish.traces.templates.rendered import Extension, Rendered
from burnish.traces.trace import CONTEXT, DEMONSTRATION, ENVIRONMENT, Author, Role

_AFTER_TOOL: dict[str, tuple[Author, Role]] = {"tool": (ENVIRONMENT, Role.OBSERVATION)}


class PlainFormat:
    """Each message is its text and `separator`, an assistant's its text, eos and `separator`.

    Each text is encoded by itself, so that a path only ever grows. What the tokenizer puts at the start of a text
    (bos) is put at the start of the conversation only.
    """

    def __init__(self, tokenizer: Tokenizer, *, separator: str = "", stop_ids: Iterable[int] = ()) -> None:
        self.tokenizer = tokenizer
        self.separator = separator
        self._start = self._bos()
        eos = tokenizer.eos_token_id
        stops = frozenset(stop_ids) | ({eos} if eos is not None else set())
        end = TurnEnd(eos, () if eos is None else (eos,))
        names = tuple(str(tokenizer.convert_ids_to_tokens(stop)) for stop in sorted(stops))
        self.finding = Finding(
            Forms(), end, end, stops, names, tool_calls="refused", tools_shown=False, text_beside_calls=False
        )

    @property
    def stop_ids(self) -> frozenset[int]:
        """The stop class; empty when the tokenizer has no end-of-text token: then only the token limit ends a turn."""
        return self.finding.stop_ids

    def prompt(self, messages: Sequence[Message] | str, tools: Iterable[Tool] | None = None) -> Rendered:
        """The texts, each followed by the separator. A bare string is taken as one user message."""
        listed = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
        self._check(listed, tools)
        rendered = self._opening()
        for message in listed:
            rendered = rendered + self._message(message)
        return rendered

    def extend(
        self,
        messages: Sequence[Message],
        path: Sequence[int],
        new: Sequence[Message],
        tools: Iterable[Tool] | None = None,
    ) -> Extension:
        """The texts of `new` after the path, which is closed with eos when it was cut.

        Never a new segment: raw text is not edited afterwards.
        """
        self._check(new, tools)
        ids = list(path)
        closed = bool(ids) and (ids[-1] in self.stop_ids or not self.finding.answer_end.closing)
        added = Rendered() if closed else self._piece("", CONTEXT, Role.SCAFFOLD, self.finding.answer_end.closing)
        added = added + self._piece(self.separator, CONTEXT, Role.SCAFFOLD)
        for message in new:
            added = added + self._message(message)
        return Extension(len(ids), added, new_segment=False)

    def demonstration(self, messages: Sequence[Message], tools: Iterable[Tool] | None = None) -> list[Rendered]:
        """The conversation with its assistant texts, each ended with eos, as demonstrations."""
        self._check(messages, tools)
        last = max((i for i, message in enumerate(messages) if message["role"] == "assistant"), default=-1)
        if last < 0:
            raise InputError("a demonstration needs at least one message of role assistant: there is nothing to train")
        whole = self._opening()
        for index, message in enumerate(messages[: last + 1]):
            whole = whole + self._message(message, DEMONSTRATION, separated=index < last)
        return [whole]

    def assistant_message(self, sampled: Sequence[int]) -> dict[str, Any]:
        """The sampled ids as a message: their text, without the stop token."""
        ids = list(sampled)
        while ids and ids[-1] in self.stop_ids:
            ids.pop()
        return {"role": "assistant", "content": self.tokenizer.decode(ids, skip_special_tokens=False)}

    def _opening(self) -> Rendered:
        return self._piece("", CONTEXT, Role.SCAFFOLD, self._start)

    def _message(self, message: Message, assistant: Author = CONTEXT, *, separated: bool = True) -> Rendered:
        text = str(message.get("content") or "")
        if message["role"] == "assistant":
            body = self._piece(text, assistant, Role.ANSWER, self.finding.answer_end.closing)
        else:
            body = self._piece(text, *_AFTER_TOOL.get(str(message["role"]), (CONTEXT, Role.PROMPT)))
        return body + self._piece(self.separator, CONTEXT, Role.SCAFFOLD) if separated else body

    def _piece(self, text: str, author: Author, role: Role, closing: Sequence[int] = ()) -> Rendered:
        ids = [*self._encode(text), *closing]
        return Rendered(ids, [author] * len(ids), [role] * len(ids))

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"]) if text else []

    def _bos(self) -> list[int]:
        """What the tokenizer puts before a text; what it puts behind one is left out."""
        for probe in ("a", "1", " "):
            plain, full = self._encode(probe), list(self.tokenizer(probe)["input_ids"])
            places = [i for i in range(len(full) - len(plain) + 1) if full[i : i + len(plain)] == plain]
            if plain and places:
                return full[: places[0]]
        return []

    def _check(self, messages: Sequence[Message], tools: Iterable[Tool] | None) -> None:
        if tools:
            raise InputError("the plain format has no way to show tools to a model: describe them in the prompt's text")
        for index, message in enumerate(messages):
            if not isinstance(message.get("role"), str):
                raise InputError(f"message {index} has no role: each message needs role and content")
            if message.get("tool_calls"):
                raise InputError(f"message {index} has tool calls; in the plain format write them as text in content")
