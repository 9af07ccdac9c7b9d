"""Chat messages from outside: checked, so that a template never meets something it would render silently wrong."""

from __future__ import annotations

from typing import Any

from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Message

ROLES = ("system", "developer", "user", "assistant", "tool")


def checked_messages(value: Any, column: str) -> tuple[Message, ...]:
    """The messages of a row. Raises ValueError with what is wrong and the fix, without the place."""
    if not isinstance(value, list):
        raise ValueError(f"{column!r} must be a list of messages, not {kind_of(value)}")
    if not value:
        raise ValueError(f"{column!r} is an empty list: remove the row or give it a message")
    return tuple(_checked_message(message, f"{column}[{i}]") for i, message in enumerate(value))


def _checked_message(message: Any, where: str) -> Message:
    if not isinstance(message, dict):
        raise ValueError(f"{where} must be an object with role and content, not {kind_of(message)}")
    for key in ("role", "content"):
        if key not in message and not (key == "content" and message.get("tool_calls")):
            raise ValueError(f"{where} has no {key!r}; its keys: {', '.join(message) or 'none'}")
    if message["role"] not in ROLES:
        raise ValueError(
            f"{where} has the unknown role {message['role']!r}; {did_you_mean(str(message['role']), ROLES)}"
        )
    content = message.get("content")
    if isinstance(content, list):
        raise ValueError(f"{where}.content is a list of parts; only text is read: write it as one string")
    if not isinstance(content, str) and not (content is None and message.get("tool_calls")):
        raise ValueError(f"{where}.content must be a string, not {kind_of(content)}")
    return message


def split_conversation(messages: tuple[Message, ...], column: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The prompt, up to the first assistant message, and what follows. Raises ValueError when either is absent."""
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), None)
    if first is None:
        raise ValueError(f"{column!r} holds no assistant message, so there is nothing to imitate")
    if first == 0:
        raise ValueError(f"{column!r} starts with the assistant: put the user's message before it")
    return messages[:first], messages[first:]


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
