"""KEY=VALUE from the command line, put into what a recipe's file says.

Keys are set one by one. `null` takes a key away: one that may be null is then null, any other has its default again.
A whole part is replaced where the value says everything about it: by a list, or, of a part that has a `kind`
(`data.family`, `rewards`), by the name of one or a mapping with its `kind`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Sequence
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from burnish.errors import InputError
from burnish.running.keys import model_at
from burnish.running.mistakes import dotted, shown
from burnish.running.yamlfile import KeyPath, value_of

Changes = dict[KeyPath, Any]
"""Path of a key -> the value that the command line gives it."""

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def parse_overrides(overrides: Sequence[str]) -> Changes:
    """Paths and values of KEY=VALUE texts. Raises InputError for what is none, and for one key set twice."""
    found: Changes = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals:
            raise InputError(f"command line: {text!r} is no override; write KEY=VALUE, such as optimizer.lr=1e-5")
        if not _KEY.fullmatch(key):
            raise InputError(
                f"command line: {key!r} is no key; write names with dots between, such as optimizer.lr=1e-5"
            )
        if not value.strip():
            raise InputError(
                f"command line: {key} has no value; write {key}=null for none, or {key}=\"''\" for no text"
            )
        path = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        for other in found:
            shorter = min(len(path), len(other))
            if path[:shorter] == other[:shorter]:
                raise InputError(
                    f"command line: {dotted(path)} and {dotted(other)} set the same thing; give one of the two"
                    if path != other
                    else f"command line: {key} is given twice; give it once"
                )
        found[path] = value_of(value, f"command line, {key}")
    return found


def put(values: dict[str, Any], path: KeyPath, value: Any, spec: type[BaseModel]) -> None:
    """Set one override in the raw values; a short form on the way there is written out first."""
    node: Any = values
    for depth in range(len(path) - 1):
        inner, here = _inside(node, path, depth), path[: depth + 1]
        written = _written_out(inner, here, path[depth + 1], spec)
        if written is None:
            raise InputError(
                f"command line: {dotted(path)} looks for keys in {dotted(here)}, which is {shown(inner)}; "
                f"did you mean {dotted(here)}=...?"
            )
        node[path[depth]] = written
        node = written
    before = _inside(node, path, len(path) - 1)
    if value is None and isinstance(node, dict) and _has_default(node, path, spec):
        node.pop(path[-1], None)
        return
    if isinstance(before, dict) and before and value is not None and not _whole(value, path, spec):
        keys = ", ".join(f"{dotted(path)}.{key}" for key in before)
        raise InputError(
            f"command line: {dotted(path)} is a mapping, not a value: {shown(value)} would take the place of {keys}; "
            "set its keys one by one"
        )
    node[path[-1]] = value


def _has_default(node: dict[str, Any], path: KeyPath, spec: type[BaseModel]) -> bool:
    """Whether null takes a key away: one that cannot be null, or one of the file that this recipe does not have."""
    models = model_at(spec, path[:-1])
    fields = [model.model_fields[str(path[-1])] for model in models if path[-1] in model.model_fields]
    if fields:
        return not any(_takes_null(field.annotation) for field in fields)
    return bool(models) and path[-1] in node  # without a model it is a mapping of the user's own names


def _takes_null(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_takes_null(part) for part in get_args(annotation))
    return annotation is type(None)


def _whole(value: Any, path: KeyPath, spec: type[BaseModel]) -> bool:
    """Whether a value says everything about the part that it replaces."""
    named = _names_at(spec, path) & {"kind", "rewards"}
    return isinstance(value, list) or bool(named and (isinstance(value, str) or _gives_kind(value)))


def _gives_kind(value: Any) -> bool:
    return isinstance(value, dict) and bool(value.keys() & {"kind", "rewards"})


def _names_at(spec: type[BaseModel], path: KeyPath) -> set[str]:
    return {name for model in model_at(spec, path) for name in model.model_fields}


def _inside(node: Any, path: KeyPath, depth: int) -> Any:
    """What stands in a mapping (None where nothing does) or list at `path[depth]`."""
    part, where = path[depth], dotted(path[:depth])
    if isinstance(node, dict):
        if isinstance(part, int):
            raise InputError(f"command line: {where} is no list, so {dotted(path)} finds nothing in it; name a key")
        return node.get(part)
    if not isinstance(part, int) or part >= len(node):
        raise InputError(
            f"command line: {where} is a list of {len(node)}, so {dotted(path)} finds nothing in it; its first entry "
            f"is {where}.0"
        )
    return node[part]


def _written_out(
    given: Any, path: KeyPath, then: str | int, spec: type[BaseModel]
) -> dict[str, Any] | list[Any] | None:
    """A mapping or list to descend into; None when the value there is neither and has no longer form."""
    names = _names_at(spec, path)
    inner: Any = {} if given is None else given
    if isinstance(inner, str) and names & {"kind", "rewards"}:
        inner = {"kind": inner}
    if "rewards" in names and isinstance(then, str):
        if isinstance(inner, list):
            return {"rewards": inner}
        if then == "rewards" and isinstance(inner, dict) and "kind" in inner:
            shared = {key: value for key, value in inner.items() if key in names - {"rewards"}}
            return {"rewards": [{key: value for key, value in inner.items() if key not in shared}], **shared}
    return inner if isinstance(inner, (dict, list)) else None
