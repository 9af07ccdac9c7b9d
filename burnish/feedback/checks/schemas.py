"""JSON output that must satisfy a JSON Schema, and may be compared with an expected value field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from burnish.feedback.checks.applicable import require_applicable, validator
from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.jsons import BrokenJSON, equal, leaves, loads
from burnish.feedback.checks.outcome import Found, Unjudged


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: schema, strict, text, read, thoughts, key (an expected value in a list of one, or empty), valid_share.

    Raises Unjudged when the schema is none.
    """
    valid, key = sound_row(job["schema"], job["key"], strict=job["strict"])
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
    if not key:
        return Found(1.0)
    share = _share(key[0], value)
    worth = job["valid_share"] + (1.0 - job["valid_share"]) * share
    return Found(worth) if share == 1.0 else Found(worth, "wrong", f"{share:.0%} of the fields are right")


def sound_row(schema: Any, key: list[Any], *, strict: bool) -> tuple[Any, list[Any]]:
    """The validator of a row's schema, and the expected value, if there is one, which must satisfy it.

    An expected value that is a text stays one where the schema takes it so, and is read as JSON elsewhere. Raises
    Unjudged where nothing could be right.
    """
    written = json.dumps(schema, sort_keys=True)
    require_applicable(written)
    valid = validator(written, strict)
    if not key:
        return valid, []
    value = key[0]
    if isinstance(value, str) and mismatch(valid, value):
        with suppress(BrokenJSON):
            value = loads(value)
    if reason := mismatch(valid, value):
        raise Unjudged("bad_key", f"the expected value does not satisfy the schema: {reason}")
    return valid, [value]


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


def _share(expected: Any, value: Any) -> float:
    """Equal leaf fields over all leaf fields of either value."""
    right, given = leaves(expected), leaves(value)
    same = sum(place in given and equal(each, given[place]) for place, each in right.items())
    return same / len(right.keys() | given.keys())
