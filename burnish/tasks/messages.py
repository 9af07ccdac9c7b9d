"""Chat messages from outside: checked, so that a template never meets something it would render silently wrong."""

from __future__ import annotations

from typing import Any

from burnish.tasks.faults import RowError
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Message
from burnish.tasks.tools import checked_calls

ROLES = ("system", "developer", "user", "assistant", "tool")


def checked_messages(value: Any, column: str) -> tuple[Message, ...]:
    """The messages of a row. Raises RowError with what is wrong and the fix, without the place."""
    if not isinstance(value, list):
        raise RowError("type", f"{column!r} must be a list of messages, not {kind_of(value)}")
    if not value:
        raise RowError("empty", f"{column!r} is an empty list: remove the row or give it a message")
    return tuple(_checked_message(message, f"{column}[{i}]") for i, message in enumerate(value))


def _checked_message(message: Any, where: str) -> Message:
    if not isinstance(message, dict):
        raise RowError("type", f"{where} must be an object with role and content, not {kind_of(message)}")
    for key in ("role", "content"):
        if key not in message and not (key == "content" and message.get("tool_calls")):
            raise RowError("type", f"{where} has no {key!r}; its keys: {', '.join(message) or 'none'}")
    role = message["role"]
    if role not in ROLES:
        raise RowError("role", f"{where} has the unknown role {role!r}; {did_you_mean(str(role), ROLES)}")
    content = message.get("content")
    if isinstance(content, list):
        raise RowError("type", f"{where}.content is a list of parts; only text is read: write it as one string")
    if not isinstance(content, str) and not (content is None and message.get("tool_calls")):
        raise RowError("type", f"{where}.content must be a string, not {kind_of(content)}")
    if role in ("system", "developer", "user") and not str(content).strip():
        raise RowError("empty", f"{where} is empty: remove the message or the row, or write what it says")
    if not message.get("tool_calls"):
        return message
    if role != "assistant":
        raise RowError("tool", f"{where} has tool calls and the role {role}: only the assistant calls tools")
    return {**message, "tool_calls": checked_calls(message["tool_calls"], f"{where}.tool_calls")}


def split_conversation(messages: tuple[Message, ...], column: str) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """The prompt, up to the first assistant message, and what follows. Raises RowError when either is absent."""
    first = next((i for i, message in enumerate(messages) if message["role"] == "assistant"), None)
    if first is None:
        raise RowError("assistant", f"{column!r} holds no assistant message, so there is nothing to imitate")
    if first == 0:
        raise RowError("prompt", f"{column!r} starts with the assistant: put the user's message before it")
    return messages[:first], messages[first:]


def trained_turns(messages: tuple[Message, ...], column: str) -> tuple[Message, ...]:
    """The messages as they are; refused when they say of a turn that it must not be trained.

    Raises RowError for an assistant's turn with nothing in it, and for `train: false` (Axolotl) and `weight: 0`
    (OpenAI), which would otherwise be trained all the same.
    """
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        if message.get("train") is False or message.get("weight") in (0, False):
            raise RowError(
                "assistant",
                f"{column}[{index}] says that it must not be trained (train or weight), and every assistant's turn is: "
                "end the row before it, or remove the mark",
            )
        if not message.get("content") and not message.get("tool_calls"):
            raise RowError("empty", f"{column}[{index}] is an assistant's turn with nothing in it; remove the row")
    return messages


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
