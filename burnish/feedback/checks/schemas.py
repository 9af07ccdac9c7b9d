"""JSON output that must satisfy a JSON Schema, and may be compared with an expected value field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.jsons import BrokenJSON, equal, leaves, loads
from burnish.feedback.checks.outcome import Found, Unjudged

_OF_NAMES = ("properties", "$defs", "definitions")
_OF_PLACES = ("anyOf", "oneOf", "prefixItems", "items", "additionalProperties")


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: schema, strict, text, read, thoughts, key (an expected value in a list of one, or empty), valid_share.

    Raises Unjudged when the schema is none.
    """
    schema = json.dumps(job["schema"], sort_keys=True)
    valid = validator(schema, job["strict"])
    begin()
    text = read(after_thoughts(job["text"], job["thoughts"]), job["read"])
    if text is None:
        return Found(0.0, "no_answer", f"no answer is found by the rule {job['read']!r}")
    try:
        value = loads(text)
    except BrokenJSON as error:
        return Found(0.0, error.kind, error.reason)
    if reason := mismatch(valid, value):
        return Found(0.0, "schema_mismatch", reason)
    if not job["key"]:
        return Found(1.0)
    share = _share(job["key"][0], value)
    worth = job["valid_share"] + (1.0 - job["valid_share"]) * share
    return Found(worth) if share == 1.0 else Found(worth, "wrong", f"{share:.0%} of the fields are right")


def mismatch(valid: Any, value: Any) -> str:
    """How a value misses a schema: its first and shallowest error, or nothing. Raises Unjudged for a dead reference."""
    from jsonschema.exceptions import best_match
    from referencing.exceptions import Unresolvable

    try:
        error = best_match(valid.iter_errors(value))
    except Unresolvable as unknown:
        raise Unjudged("bad_key", f"the schema refers to {unknown.ref!r}, which it does not hold") from None
    if error is None:
        return ""
    return f"at {error.json_path[:100]}: {error.message[:200]}"


@lru_cache(maxsize=256)
def validator(schema: str, strict: bool) -> Any:
    """The validator of a schema (as JSON text); it follows no reference out of the schema. Raises Unjudged."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for
    from referencing import Registry

    found = json.loads(schema)
    kind: Any = validator_for(found, default=Draft202012Validator)
    try:
        kind.check_schema(found)
    except SchemaError as error:
        raise Unjudged("bad_key", f"no JSON Schema: {error.message[:200]}") from None
    return kind(made_strict(found) if strict else found, registry=Registry())


def made_strict(schema: Any) -> Any:
    """The schema with every property required and no other allowed, at every depth.

    Nothing changes inside `allOf`, `not` and `if`, where it would change what the schema means.

    >>> made_strict({"properties": {"a": {"type": "string"}}})["required"]
    ['a']
    """
    if isinstance(schema, list):
        return [made_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = dict(schema)
    for name in _OF_NAMES:
        if isinstance(strict.get(name), dict):
            strict[name] = {key: made_strict(each) for key, each in strict[name].items()}
    for name in _OF_PLACES:
        if name in strict:
            strict[name] = made_strict(strict[name])
    if isinstance(strict.get("properties"), dict):
        strict["required"] = sorted({*strict["properties"], *strict.get("required", [])})
        strict["additionalProperties"] = False
    return strict


def _share(expected: Any, value: Any) -> float:
    """Equal leaf fields over all leaf fields of either value."""
    right, given = leaves(expected), leaves(value)
    same = sum(place in given and equal(each, given[place]) for place, each in right.items())
    return same / len(right.keys() | given.keys())
