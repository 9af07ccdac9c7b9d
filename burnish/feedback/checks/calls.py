"""Tool calls in a completion: found, read, and checked against the tools that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from burnish.feedback.checks.applicable import validator
from burnish.feedback.checks.final import read
from burnish.feedback.checks.jsons import BrokenJSON, loads
from burnish.feedback.checks.outcome import Unjudged

MOST_CALLS = 64
"""More calls than this in one answer are not matched (kind `too_many_calls`)."""

_OPEN = re.compile(r"<tool_call>")
_FUNCTION = re.compile(r"\s*<function=([^>\n]+)>(.*)</function>\s*", re.DOTALL)
_PARAMETER = re.compile(r"\s*<parameter=([^>\n]+)>\n?((?:(?!<parameter=|</parameter>).)*)</parameter>", re.DOTALL)


_MEANT = re.compile(r"\s*\[?\s*\{\s*\"(?:name|function|type|arguments|parameters)\"\s*:")
"""How a call begins, also one that is no JSON in the end."""


@dataclass(frozen=True)
class Call:
    """A call: the tool's name and its arguments by name."""

    name: str
    arguments: dict[str, Any]


class WrongCallError(Exception):
    """What a candidate calls that cannot be called; `kind` names how."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def found_calls(text: str, tools: Mapping[str, Mapping[str, Any]] | None) -> list[Call]:
    """The calls of a completion, in order.

    They stand between <tool_call> and </tool_call>, as JSON or as <function=name><parameter=key>value</parameter>
    </function>; or else the whole text, or its last fenced block, is a JSON call or a list of them. JSON that names no
    tool, and a text with neither, call nothing. Raises WrongCallError.
    """
    blocks = _OPEN.split(text)[1:]
    if len(blocks) > MOST_CALLS:
        raise WrongCallError("too_many_calls", f"{len(blocks)} calls in one answer")
    if blocks:
        return [_tagged(block, tools) for block in blocks]
    bare = text.strip()
    candidates = bare if bare.startswith(("{", "[")) else read(text, "fenced")
    if not candidates or not candidates.startswith(("{", "[")):
        return []
    try:
        value = loads(candidates)
    except BrokenJSON as error:
        if _MEANT.match(candidates):
            raise WrongCallError(error.kind, error.reason) from None
        return []
    values = value if isinstance(value, list) else [value]
    if not any(isinstance(each, dict) and each.keys() & {"name", "function"} for each in values):
        return []
    if len(values) > MOST_CALLS:
        raise WrongCallError("too_many_calls", f"{len(values)} calls in one answer")
    return [_call(each) for each in values]


def _tagged(block: str, tools: Mapping[str, Mapping[str, Any]] | None) -> Call:
    inside, closed, _ = block.partition("</tool_call>")
    if not closed:
        raise WrongCallError("broken_json", "a <tool_call> is not closed")
    function = _FUNCTION.fullmatch(inside)
    return _call(_json(inside)) if function is None else _written_out(function, tools)


def _written_out(function: re.Match[str], tools: Mapping[str, Mapping[str, Any]] | None) -> Call:
    """The form without JSON: a value is what the tool's schema takes it for, the JSON reading first."""
    name, inside = function[1].strip(), function[2]
    place, arguments = 0, {}
    properties = ((tools or {}).get(name) or {}).get("properties", {})
    while match := _PARAMETER.match(inside, place):
        key, written = match[1].strip(), match[2].removesuffix("\n")
        arguments[key] = _read(written, properties.get(key), (tools or {}).get(name) or {})
        place = match.end()
    if inside[place:].strip():
        raise WrongCallError("broken_json", f"the call of {name[:80]!r} is not well-formed")
    return Call(name, arguments)


def _read(written: str, schema: Any, tool: Mapping[str, Any]) -> Any:
    """A value as its schema takes it: text that is none as JSON, or whose JSON the schema refuses, stays text."""
    if not isinstance(schema, Mapping):
        return _scalar(written)
    if schema.get("type") == "string":
        return written
    value = _scalar(written)
    valid = validator(json.dumps(tool, sort_keys=True), False).evolve(schema=schema)  # it may refer to the whole
    return written if not valid.is_valid(value) and valid.is_valid(written) else value


def _scalar(written: str) -> Any:
    """Some templates write scalars as Python does: True, None."""
    try:
        return loads({"True": "true", "False": "false", "None": "null"}.get(written, written))
    except BrokenJSON:
        return written


def _json(text: str) -> Any:
    try:
        return loads(text.strip())
    except BrokenJSON as error:
        raise WrongCallError(error.kind, error.reason) from None


def _call(value: Any) -> Call:
    """{"name", "arguments"}, or the same inside of "function"; arguments may be an object or JSON text of one."""
    inner = value.get("function", value) if isinstance(value, dict) else value
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise WrongCallError("broken_json", "a call is an object with a name and arguments")
    arguments = inner.get("arguments", inner.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _json(arguments)
    if not isinstance(arguments, dict):
        raise WrongCallError("wrong_type", f"the arguments of {inner['name'][:80]!r} are not an object")
    return Call(inner["name"], arguments)


def described(tools: Sequence[Any]) -> dict[str, dict[str, Any]]:
    """Name -> schema of the parameters, from descriptions as chat interfaces take them. Raises Unjudged."""
    found = {}
    for tool in tools:
        inner = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
            raise Unjudged("bad_key", f"a tool is described by an object with a name, not {str(tool)[:80]}")
        found[inner["name"]] = inner.get("parameters") or {"type": "object"}
    return found


def refuse_impossible(
    calls: Sequence[Call], tools: Mapping[str, Mapping[str, Any]], patience: float | None = None
) -> None:
    """Raises WrongCallError for a tool that is not there and for arguments that its schema does not allow.

    See `validator` about `patience`."""
    for call in calls:
        if call.name not in tools:
            raise WrongCallError("unknown_tool", f"there is no tool {call.name[:80]!r}")
        schema = tools[call.name]
        for error in validator(json.dumps(schema, sort_keys=True), False, patience).iter_errors(call.arguments):
            absent = error.validator == "required" and not error.absolute_path
            extra = error.validator == "additionalProperties" and not error.absolute_path
            kind = "missing_argument" if absent else "unexpected_argument" if extra else "wrong_type"
            raise WrongCallError(kind, f"{call.name[:80]}: {error.json_path[:80]}: {error.message[:200]}")
        properties = schema.get("properties")
        if isinstance(properties, Mapping) and (more := sorted(set(call.arguments) - set(properties))):
            if schema.get("additionalProperties"):
                continue
            raise WrongCallError("unexpected_argument", f"{call.name[:80]} takes no {more[0][:80]!r}")
