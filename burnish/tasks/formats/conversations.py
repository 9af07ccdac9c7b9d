"""Conversations in the ShareGPT form and its relatives, as chat messages.

A message may name its parts from/value (ShareGPT), role/value (Pygmalion) or role/content (Axolotl's chat_template
reads that from a column `conversations` as well). Roles follow LLaMA-Factory's data/README.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from burnish.tasks.answers import Message
from burnish.tasks.faults import RowError
from burnish.tasks.messages import checked_messages, kind_of
from burnish.tasks.suggest import did_you_mean

ROLES: Mapping[str, str] = {
    "human": "user", "user": "user",
    "gpt": "assistant", "assistant": "assistant", "model": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "system": "system", "developer": "developer",
    "function_call": "call", "tool_call": "call",
    "observation": "tool", "tool": "tool", "function_response": "tool", "tool_response": "tool", "ipython": "tool",
}  # fmt: skip
"""The names of roles in such data -> the roles of chat messages; `call` is an assistant's turn that is a tool call."""

_PARTS = (("from", "value"), ("role", "value"), ("role", "content"))


def in_share_form(value: Any) -> bool:
    """Whether a value is a list of messages with from/value."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "from" in value[0]


def conversation(value: Any, column: str) -> tuple[Message, ...]:
    """The chat messages of a conversation. Raises RowError with what is wrong and the fix."""
    if not isinstance(value, list):
        raise RowError("type", f"{column!r} must be a list of messages, not {kind_of(value)}")
    if not value:
        raise RowError("empty", f"{column!r} is an empty list: remove the row or give it a message")
    return checked_messages([_message(m, f"{column}[{i}]") for i, m in enumerate(value)], column)


def _message(message: Any, where: str) -> Message:
    if not isinstance(message, dict):
        raise RowError("type", f"{where} must be an object with from and value, not {kind_of(message)}")
    names = next((names for names in _PARTS if all(name in message for name in names)), None)
    if names is None:
        if "role" in message:  # an assistant's turn that is only tool calls has no content
            names = ("role", "content")
        else:
            raise RowError(
                "type", f"{where} has neither from and value nor role and content; its keys: {', '.join(message)}"
            )
    role, text = message[names[0]], message.get(names[1])
    if role not in ROLES:
        raise RowError("role", f"{where} has the unknown role {role!r}; {did_you_mean(str(role), ROLES)}")
    rest = {key: value for key, value in message.items() if key not in names}
    if ROLES[role] != "call":
        return {"role": ROLES[role], "content": text, **rest}
    return {"role": "assistant", "content": None, "tool_calls": _calls(text, where), **rest}


def _calls(text: Any, where: str) -> list[Any]:
    """The calls in a turn of role function_call: one, or a list of them, as JSON text."""
    try:
        calls = json.loads(text) if isinstance(text, str) else text
    except (json.JSONDecodeError, RecursionError) as error:
        raise RowError("tool", f"{where} is a tool call that is not JSON ({error})") from None
    return calls if isinstance(calls, list) else [calls]
