"""The forms in which one template wants its messages, and bringing messages into them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

THINKING_KEYS = ("reasoning_content", "thinking", "reasoning")
"""Keys under which a message's thinking may be given; the template reads one of them, or none."""


@dataclass(frozen=True)
class Forms:
    """What differs between templates in how a message must be written. Found by examining the template."""

    content_as_parts: bool = False
    """Text must come as `[{"type": "text", "text": ...}]`; a plain string would be left out silently."""
    thinking_key: str | None = None
    """The key under which the template reads the thinking; None: only as text inside `content`."""
    arguments_as_text: bool = False
    """The arguments of a tool call must be JSON text, not an object."""
    call_content: Literal["empty", "none"] = "empty"
    """What stands for the text of a turn that is only tool calls: '' or None."""

    def apply(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of the message in the template's forms. Keys with nothing in them are left out."""
        shaped = {key: value for key, value in message.items() if value is not None or key == "content"}
        if not shaped.get("tool_calls", True):
            del shaped["tool_calls"]  # some templates ask whether the key is there
        self._thinking(shaped)
        content = shaped.get("content")
        calls = shaped.get("tool_calls")
        if calls:
            shaped["tool_calls"] = [self._call(call) for call in calls]
            if not content:
                shaped["content"] = "" if self.call_content == "empty" else None
        elif content is None:
            shaped["content"] = ""
        if self.content_as_parts and isinstance(shaped["content"], str):
            shaped["content"] = [{"type": "text", "text": shaped["content"]}]
        return shaped

    def _thinking(self, message: dict[str, Any]) -> None:
        for key in THINKING_KEYS:
            if self.thinking_key is not None and key != self.thinking_key and key in message:
                message.setdefault(self.thinking_key, message.pop(key))

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call.get("function", call))
        arguments = function.get("arguments", {})
        if self.arguments_as_text and not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        elif not self.arguments_as_text and isinstance(arguments, str):
            with suppress(json.JSONDecodeError):  # arguments that are no JSON reach the template as they are
                arguments = json.loads(arguments)
        function["arguments"] = arguments
        outer = {key: value for key, value in call.items() if key != "function"} if "function" in call else {}
        return {"type": "function", **outer, "function": function}
