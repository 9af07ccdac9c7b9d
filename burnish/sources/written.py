"""The text form of tool calls: the whole turn is `name(arguments)`, the arguments in the order of the parameters.

Commas part the arguments. A value may be written in JSON: a text in quotation marks, a list, an object; so a comma can
be in it. The last argument may hold commas as it stands. An optional argument that is left empty is absent, and so are
those that are not reached.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from burnish.environments.protocol import Call, Tool
from burnish.feedback.checks.applicable import validator
from burnish.feedback.checks.calls import Call as FoundCall
from burnish.feedback.checks.calls import WrongCallError
from burnish.feedback.checks.jsons import BrokenJSON, loads
from burnish.sources.tools import Schema, function_of

_WRITTEN = re.compile(r"\s*([A-Za-z_]\w*)\((.*)\)\s*", re.DOTALL)
_BEGUN = re.compile(r"\s*([A-Za-z_]\w*)\(")
_LONGEST_NUMBER = 40


class Text:
    """See the module."""

    name = "text"

    def found(self, text: str, schemas: Mapping[str, Schema]) -> list[FoundCall]:
        """See `Syntax.found`."""
        written = _WRITTEN.fullmatch(text)
        if written is not None:
            return [FoundCall(written[1], _arguments(written[1], written[2], schemas.get(written[1])))]
        begun = _BEGUN.match(text)
        if begun is not None and begun[1] in schemas:
            raise WrongCallError("broken_call", f"the call of {begun[1]} is not closed")
        return []

    def write(self, call: Call, schemas: Mapping[str, Schema]) -> str:
        """See `Syntax.write`."""
        schema = schemas.get(call.name, {})
        parameters = schema.get("properties", {key: {} for key in call.arguments})
        keys = list(parameters)
        given = [place for place, key in enumerate(keys) if key in call.arguments]
        parts = []
        for place, key in enumerate(keys[: given[-1] + 1] if given else ()):
            last = place == len(keys) - 1
            parts.append(_written(call.arguments[key], schema, key, last) if key in call.arguments else "")
        return f"{call.name}({','.join(parts)})"

    def description(self, tools: Sequence[Tool]) -> str:
        """A line for each tool that has a description; one without is taken to be known. `[x]` is optional."""
        lines = []
        for function in map(function_of, tools):
            if function.get("description"):
                lines.append(
                    f"{function['name']}({_names(function.get('parameters') or {})}): {function['description']}"
                )
        return "\n".join(lines)


def _names(schema: Schema, between: str = ",") -> str:
    required = _required(schema)
    return between.join(key if key in required else f"[{key}]" for key in schema.get("properties", {}))


def _required(schema: Schema) -> set[str]:
    return set(schema.get("required", ()))


def _arguments(name: str, inside: str, schema: Schema | None) -> dict[str, Any]:
    parameters: Mapping[str, Any] = (schema or {}).get("properties", {})
    if schema is None or not parameters:
        if schema is not None and inside.strip():
            raise WrongCallError("unexpected_argument", f"{name} takes no arguments")
        return {}
    required = _required(schema)
    found: dict[str, Any] = {}
    rest = inside or None
    for place, key in enumerate(parameters, start=1):
        if rest is None:
            break
        value, empty, rest = _next(rest, schema, key, place == len(parameters))
        if key in required or not empty:
            found[key] = value
    if any(key in required and key not in found for key in parameters):
        raise WrongCallError("missing_argument", f"{name} takes {_names(schema, ', ')}")
    return found


def _next(written: str, schema: Schema, key: str, last: bool) -> tuple[Any, bool, str | None]:
    """The first value of what is written, whether nothing stands there, and what follows its comma."""
    text = written.strip()
    if text[:1] == '"' or (text[:1] in ("[", "{") and not _is_text(schema, key)):
        end = _end(text)
        tail = "" if end is None else text[end:].lstrip()
        if end is not None and (not tail or (tail[0] == "," and not last)):
            try:
                return loads(text[:end]), False, tail[1:] if tail else None
            except BrokenJSON:  # taken as it stands
                pass
    raw, comma, rest = (written, "", "") if last else written.partition(",")
    return _typed(raw.strip(), schema, key), not raw.strip(), rest if comma else None


def _end(text: str) -> int | None:
    """Where the JSON value that a text begins with ends."""
    try:
        return json.JSONDecoder().raw_decode(text)[1]
    except ValueError:
        return None
    except RecursionError:
        raise WrongCallError("too_deep", "the JSON is nested too deeply") from None


def _is_text(schema: Schema, key: str) -> bool:
    of = schema["properties"].get(key)
    return isinstance(of, Mapping) and of.get("type") == "string"


def _typed(written: str, schema: Schema, key: str) -> Any:
    """A written value as the tool's schema takes it: the JSON reading first, text where there is none, or where the
    schema takes the text and not the reading."""
    if _is_text(schema, key) or len(written) > _LONGEST_NUMBER:
        return written
    try:
        value = loads(written)
    except BrokenJSON:
        return written
    fits = validator(json.dumps(schema, sort_keys=True), False).evolve(schema=schema["properties"][key])
    return written if not fits.is_valid(value) and fits.is_valid(written) else value


def _written(value: Any, schema: Schema, key: str, last: bool) -> str:
    """A value as `_next` reads it: as it stands where that can be, in JSON otherwise."""
    if not isinstance(value, str) or "properties" not in schema:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    plain = value and _next(value if last else f"{value},", schema, key, last)
    return (
        value
        if plain and plain[0] == value and plain[2] == (None if last else "")
        else json.dumps(value, ensure_ascii=False)
    )
