"""JSON Schemas: their validators, whether they can be applied at all, and what makes one strict."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from burnish.feedback.checks.outcome import Unjudged

_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions")
_OF_PLACES = ("anyOf", "oneOf", "prefixItems", "items", "additionalProperties")


@lru_cache(maxsize=256)
def validator(schema: str, strict: bool, patience: float | None = None) -> Any:
    """The validator of a schema (as JSON text); it follows no reference out of the schema. Raises Unjudged.

    With `patience` a pattern that takes more than so many seconds raises TimeoutError, for where nothing else ends it.
    """
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
    if patience is not None:
        kind = _patient(kind, patience)
    return kind(made_strict(found) if strict else found, registry=Registry())


def _patient(kind: Any, patience: float) -> Any:
    """A kind of validator whose patterns give up after so many seconds."""
    import regex
    from jsonschema.exceptions import ValidationError
    from jsonschema.validators import extend

    def pattern(valid: Any, wanted: str, instance: Any, schema: Any) -> Iterator[Any]:
        if valid.is_type(instance, "string") and not regex.search(wanted, instance, timeout=patience):
            yield ValidationError(f"{instance!r} does not match {wanted!r}")

    def pattern_properties(valid: Any, wanted: dict[str, Any], instance: Any, schema: Any) -> Iterator[Any]:
        if valid.is_type(instance, "object"):
            for each, inner in wanted.items():
                for key in (key for key in instance if regex.search(each, key, timeout=patience)):
                    yield from valid.descend(instance[key], inner, path=key, schema_path=each)

    return extend(kind, {"pattern": pattern, "patternProperties": pattern_properties})


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


@lru_cache(maxsize=1024)
def require_applicable(schema: str) -> None:
    """Raises Unjudged for a schema (as JSON text) that is none, or that would raise when it is applied: for a reference
    to what it does not hold, a pattern that does not compile, one that refers to itself without end.
    """
    from referencing import Registry, Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    try:
        valid = validator(schema, False)
        root = Resource.from_contents(json.loads(schema), default_specification=DRAFT202012)
        _follow(root, Registry().with_resource("", root).resolver_with_root(root))
        list(valid.iter_errors({}))
    except Unresolvable as error:  # of a kind that only applying it shows
        raise Unjudged("bad_key", f"refers to {error.ref!r}, which the schema does not hold") from None
    except re.error as error:
        raise Unjudged("bad_key", f"has a pattern that does not compile: {error}") from None
    except RecursionError:
        raise Unjudged("bad_key", "refers to itself without end, or is too deep") from None
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # what the libraries make of other nonsense
        raise Unjudged("bad_key", f"cannot be read: {type(error).__name__}: {error}") from None


def _lookup(resolver: Any, reference: str) -> None:
    from referencing.exceptions import Unresolvable

    try:
        resolver.lookup(reference)
    except Unresolvable:
        raise Unjudged("bad_key", f"refers to {reference!r}, which the schema does not hold") from None


def _follow(resource: Any, resolver: Any) -> None:
    """Resolve every reference, and compile every pattern. Raises Unjudged and re.error."""
    contents = resource.contents
    if isinstance(contents, dict):
        for key in ("$ref", "$dynamicRef"):
            if isinstance(contents.get(key), str):
                _lookup(resolver, contents[key])
        for pattern in (contents.get("pattern"), *contents.get("patternProperties", ())):
            if isinstance(pattern, str):
                re.compile(pattern)
    for inner in resource.subresources():
        _follow(inner, resolver.in_subresource(inner))
