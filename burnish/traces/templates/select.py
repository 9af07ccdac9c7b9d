"""Choosing the format of a tokenizer: its own chat template, one from a file, or plain text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from burnish.errors import InputError
from burnish.traces.templates.chat import ChatFormat
from burnish.traces.templates.finding import Finding
from burnish.traces.templates.official import Message, Tokenizer, Tool
from burnish.traces.templates.plain import PlainFormat
from burnish.traces.templates.rendered import Extension, Rendered


class Format(Protocol):
    """What `ChatFormat` and `PlainFormat` both offer."""

    finding: Finding

    @property
    def stop_ids(self) -> frozenset[int]: ...
    def prompt(self, messages: Any, tools: Iterable[Tool] | None = None) -> Rendered: ...
    def extend(self, messages: Any, path: Any, new: Any, tools: Iterable[Tool] | None = None) -> Extension: ...
    def demonstration(self, messages: Any, tools: Iterable[Tool] | None = None) -> list[Rendered]: ...
    def assistant_message(self, sampled: Any) -> Message: ...


def chat_format(
    tokenizer: Tokenizer,
    template: str = "auto",
    *,
    stop_ids: Iterable[int] = (),
    variables: Mapping[str, Any] | None = None,
    separator: str = "",
) -> ChatFormat | PlainFormat:
    """The format for a tokenizer: "auto" (its own template), "plain" (raw text), or the path of a Jinja file.

    `stop_ids` are further stop tokens, `variables` go to a template, `separator` belongs to the plain format.
    Raises InputError when there is no template, the file cannot be read, or the template cannot render text.
    """
    if template == "plain":
        return PlainFormat(tokenizer, separator=separator, stop_ids=stop_ids)
    if template == "auto":
        return ChatFormat.examine(tokenizer, stop_ids=stop_ids, variables=variables)
    path = Path(template)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"template: {template!r} is neither auto, plain, nor a readable Jinja file ({error})"
        ) from None
    return ChatFormat.examine(tokenizer, template=text, stop_ids=stop_ids, variables=variables)
