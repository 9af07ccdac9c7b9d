"""From a recipe's YAML file and KEY=VALUE overrides to one resolved recipe, and back to YAML (promise E10).

A key that nothing reads is an error that suggests the right one; so is a key given twice, in the file or by overrides.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.methods.registry import METHODS
from burnish.running.keys import documented_keys, model_at, recipe_schema
from burnish.running.mistakes import bools_for_numbers, dotted, explained, shown, value_at
from burnish.running.yamlfile import Lines, dump_yaml, read_yaml, value_of
from burnish.tasks.suggest import did_you_mean

__all__ = [
    "documented_keys",
    "load_recipe",
    "recipe_from_mapping",
    "recipe_schema",
    "resolved_yaml",
    "spec_from_mapping",
]

KeyPath = tuple[str | int, ...]
Spec = TypeVar("Spec", bound=BaseModel)

_KEY = re.compile(r"[A-Za-z_]\w*(\.\w+)*")


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file with `overrides` ("optimizer.lr=1e-5") put in, of the class of its method.

    Raises InputError naming the file and line, the key, what was given and the fix.
    """
    path = Path(path)
    values, lines = read_yaml(path)
    return _resolved(values, overrides, str(path), lines)


def recipe_from_mapping(values: Mapping[str, Any], overrides: Sequence[str] = (), *, name: str = "recipe") -> Recipe:
    """As `load_recipe`, from keys and values; `name` stands for the file in messages."""
    return _resolved(dict(values), overrides, name, {})


def resolved_yaml(recipe: Recipe) -> str:
    """Every key of a recipe with its value; `load_recipe` reads an equal recipe from it."""
    return dump_yaml(recipe.model_dump(mode="json"))


def spec_from_mapping(spec: type[Spec], values: Mapping[str, Any], overrides: Sequence[str] = (), *, name: str) -> Spec:
    """Any part of a recipe from keys and values with overrides, as `recipe_from_mapping` does for a whole one."""
    values = copy.deepcopy(dict(values))
    changes = _parsed(overrides)
    return _validated(spec, values, changes, _places(name, {}, changes), "")


def _resolved(values: Any, overrides: Sequence[str], name: str, lines: Lines) -> Recipe:
    if values is None:
        raise InputError(f"{name} is empty; a recipe begins with `method:` ({_methods()})")
    if not isinstance(values, dict):
        raise InputError(
            f"{name} holds {shown(values)}; a recipe is a mapping of keys to values, such as `method: sft`"
        )
    values = copy.deepcopy(values)
    _only_names(values, (), name, lines)
    changes = _parsed(overrides)
    place = _places(name, lines, changes)
    method = changes.get(("method",), values.get("method"))
    if method is None:
        raise InputError(f"{name}: method is missing; add `method: NAME` ({_methods()})")
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"{place(('method',))}: there is no method {shown(method)}; {did_you_mean(str(method), METHODS)}; "
            "`burnish methods` lists them"
        )
    return _validated(METHODS[method].recipe, values, changes, place, method)


def _validated(
    spec: type[Spec], values: dict[str, Any], changes: dict[KeyPath, Any], place: Callable[[KeyPath], str], method: str
) -> Spec:
    for path, value in changes.items():
        _put(values, path, value, spec)
    for key in bools_for_numbers(values, spec):
        raise InputError(f"{place(key)}: {dotted(key)}: given {shown(value_at(values, key))}; it takes a number")
    try:
        return spec.model_validate(values)
    except ValidationError as error:
        raise InputError(explained(error, spec, method, values, place)) from None


def _places(name: str, lines: Lines, changes: dict[KeyPath, Any]) -> Callable[[KeyPath], str]:
    """A function that says where a key was written."""

    def place(key: KeyPath) -> str:
        if any(key[: len(path)] == path for path in changes):
            return "command line"
        if any(path[: len(key)] == key for path in changes):
            return f"{name} with the command line's changes"
        return next((f"{name}, line {lines[key[:n]]}" for n in range(len(key), 0, -1) if key[:n] in lines), name)

    return place


def _methods() -> str:
    return f"methods: {', '.join(METHODS)}"


def _only_names(value: Any, path: KeyPath, name: str, lines: Lines) -> None:
    """Refuse keys that YAML reads as something other than a name (`on`, `1`, a date)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                where = dotted(path) or "the recipe"
                raise InputError(
                    f"{name}: in {where} the key {shown(key)} is not a name; put it in quotes if it is one"
                )
            _only_names(inner, (*path, key), name, lines)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _only_names(inner, (*path, index), name, lines)


# ---------------------------------------------------------------- overrides


def _parsed(overrides: Sequence[str]) -> dict[KeyPath, Any]:
    """Paths and values of KEY=VALUE texts. Raises InputError for what is none, and for one key set twice."""
    found: dict[KeyPath, Any] = {}
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


def _put(values: dict[str, Any], path: KeyPath, value: Any, spec: type[BaseModel]) -> None:
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
    if isinstance(before, dict) and before and value is not None:
        keys = ", ".join(f"{dotted(path)}.{key}" for key in before)
        raise InputError(
            f"command line: {dotted(path)} is a mapping, not a value: {shown(value)} would take the place of {keys}; "
            "set its keys one by one"
        )
    node[path[-1]] = value


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
    models = model_at(spec, path)
    inner: Any = {} if given is None else given
    fields = {name for model in models for name in model.model_fields}
    if isinstance(inner, str) and fields & {"kind", "rewards"}:
        inner = {"kind": inner}
    if "rewards" in fields and isinstance(then, str):
        if isinstance(inner, list):
            return {"rewards": inner}
        if then == "rewards" and isinstance(inner, dict) and "kind" in inner:
            shared = {key: value for key, value in inner.items() if key == "concurrency"}
            return {"rewards": [{key: value for key, value in inner.items() if key not in shared}], **shared}
    return inner if isinstance(inner, (dict, list)) else None
