"""Tools and tool calls from outside: checked, and brought into the one form that chat templates take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from burnish.tasks.faults import RowError
from burnish.tasks.suggest import did_you_mean
from burnish.tasks.task import Message, Tool

_FORM = '{"type": "function", "function": {"name": ..., "parameters": ...}}'


def checked_tools(value: Any, column: str) -> tuple[Tool, ...] | None:
    """The tools of a row: descriptions, or a JSON text of them; None where there are none.

    A bare `{"name": ..., "parameters": ...}` is put into the full form. Raises RowError for anything else.
    """
    listed = _from_text(value, column) if isinstance(value, str) else value
    if not listed:
        return None
    if not isinstance(listed, list):
        raise RowError("tool", f"{column!r} must be a list of tools, each {_FORM}, or a JSON text of such a list")
    tools = tuple(_tool(tool, f"{column}[{i}]") for i, tool in enumerate(listed))
    names = names_of(tools)
    if len(set(names)) < len(names):
        raise RowError("tool", f"{column!r} describes one tool twice: {', '.join(names)}")
    return tools


def names_of(tools: Iterable[Tool]) -> list[str]:
    """The tools' names."""
    return [tool["function"]["name"] for tool in tools]


def _tool(tool: Any, where: str) -> Tool:
    function = tool.get("function", tool) if isinstance(tool, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise RowError("tool", f"{where} is no tool: write it as {_FORM}")
    if not isinstance(function.get("parameters", {}), dict):
        raise RowError("tool", f"{where}: parameters must be a JSON schema, an object")
    return tool if "function" in tool else {"type": "function", "function": function}


def checked_calls(value: Any, where: str) -> list[dict[str, Any]]:
    """The tool calls of a message, each `{"type": "function", "function": {"name", "arguments"}}`.

    A bare `{"name", "arguments"}` is put into that form. Arguments are an object, or a JSON text of one. Raises
    RowError for anything else.
    """
    if not isinstance(value, list):
        raise RowError("tool", f"{where} must be a list of calls")
    return [_call(call, f"{where}[{i}]") for i, call in enumerate(value)]


def _call(call: Any, where: str) -> dict[str, Any]:
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str) or not function["name"]:
        raise RowError(
            "tool", f'{where} is no tool call: write it as {{"function": {{"name": ..., "arguments": ...}}}}'
        )
    arguments = function.get("arguments", {})
    if isinstance(arguments, str):
        arguments = _from_text(arguments, f"{where}, arguments")
    if not isinstance(arguments, dict):
        raise RowError("tool", f"{where}: arguments must be an object of names and values, or a JSON text of one")
    if "function" in call:
        return call
    outer = {key: inner for key, inner in call.items() if key in ("id", "type")}
    inner = {key: inner for key, inner in call.items() if key not in ("id", "type")}
    return {"type": "function", **outer, "function": inner}


def check_names(messages: Sequence[Message], tools: Sequence[Tool] | None) -> None:
    """Raise RowError when a message calls a tool that is not among those described; without any, nothing is known."""
    if tools is None:
        return
    known = names_of(tools)
    for message in messages:
        for call in message.get("tool_calls") or ():
            if (name := call["function"]["name"]) not in known:
                raise RowError(
                    "tool", f"a call of tool {name!r}, which `tools` does not describe; {did_you_mean(name, known)}"
                )


def _from_text(text: str, where: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise RowError("tool", f"{where} is a text that is not JSON ({error})") from None
