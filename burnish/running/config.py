"""From a recipe's YAML file and KEY=VALUE overrides to one resolved recipe, and back to YAML (promise E10).

A key that nothing reads is an error that suggests the right one; so is a key given twice, in the file or by overrides,
and one that the others leave without an effect (running/contradictions.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.methods.registry import METHODS
from burnish.running.contradictions import contradictions
from burnish.running.keys import documented_keys
from burnish.running.mistakes import bools_for_numbers, dotted, explained, shown, users_path, value_at
from burnish.running.overrides import Changes, parse_overrides, put
from burnish.running.schema import any_recipe_schema, recipe_schema
from burnish.running.yamlfile import KeyPath, Lines, dump_yaml, read_yaml
from burnish.tasks.suggest import did_you_mean

__all__ = [
    "Reading",
    "any_recipe_schema",
    "documented_keys",
    "load_recipe",
    "read_recipe",
    "recipe_from_mapping",
    "recipe_of",
    "recipe_schema",
    "resolved_yaml",
    "spec_from_mapping",
    "spec_of",
]

Spec = TypeVar("Spec", bound=BaseModel)


@dataclass
class Reading:
    """What a user wrote: the keys of a file (or of a mapping), where each stands, and the command line's changes."""

    name: str
    """The file's path, or what stands for it in messages."""
    written: Any
    """As the file has it, short forms and all."""
    lines: Lines = field(default_factory=dict)
    changes: Changes = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """`written` with the changes put in; filled in where the class of the recipe is known."""

    def place(self, key: KeyPath) -> str:
        """Where a key of `values` was written, for a message."""
        if any(key[: len(path)] == path for path in self.changes):
            return "command line"
        if any(path[: len(key)] == key for path in self.changes):
            return f"{self.name} with the command line's changes"
        nearest = (key[:n] for n in range(len(key), 0, -1))
        return next((f"{self.name}, line {self.lines[path]}" for path in nearest if path in self.lines), self.name)


def load_recipe(path: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in a YAML file with `overrides` ("optimizer.lr=1e-5") put in, of the class of its method.

    Raises InputError naming the file and line, the key, what was given and the fix.
    """
    return read_recipe(path, overrides)[0]


def read_recipe(path: str | Path, overrides: Sequence[str] = ()) -> tuple[Recipe, Reading]:
    """As `load_recipe`, with what it was read from."""
    values, lines = read_yaml(Path(path))
    reading = Reading(str(path), values, lines, parse_overrides(overrides))
    return _resolved(reading), reading


def recipe_from_mapping(values: Mapping[str, Any], overrides: Sequence[str] = (), *, name: str = "recipe") -> Recipe:
    """As `load_recipe`, from keys and values; `name` stands for the file in messages."""
    return _resolved(Reading(name, dict(values), changes=parse_overrides(overrides)))


def resolved_yaml(recipe: Recipe) -> str:
    """Every key of a recipe with its value; `load_recipe` reads an equal recipe from it."""
    return dump_yaml(recipe.model_dump(mode="json"))


def spec_from_mapping(spec: type[Spec], values: Mapping[str, Any], overrides: Sequence[str] = (), *, name: str) -> Spec:
    """Any part of a recipe from keys and values with overrides, as `recipe_from_mapping` does for a whole one."""
    return _validated(spec, Reading(name, dict(values), changes=parse_overrides(overrides)), "")


def recipe_of(reading: Reading) -> Recipe:
    """As `load_recipe`, from what was read already."""
    return _resolved(reading)


def spec_of(spec: type[Spec], reading: Reading) -> Spec:
    """As `spec_from_mapping`, from what was read already."""
    return _validated(spec, reading, "")


def _resolved(reading: Reading) -> Recipe:
    name, values = reading.name, reading.written
    if values is None:
        raise InputError(f"{name} is empty; a recipe begins with `method:` ({_methods()})")
    if not isinstance(values, dict):
        raise InputError(
            f"{name} holds {shown(values)}; a recipe is a mapping of keys to values, such as `method: sft`"
        )
    _only_names(values, (), name)
    method = reading.changes.get(("method",), values.get("method"))
    if method is None:
        raise InputError(f"{name}: method is missing; add `method: NAME` ({_methods()})")
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(
            f"{reading.place(('method',))}: there is no method {shown(method)}; {did_you_mean(str(method), METHODS)}; "
            "`burnish methods` lists them"
        )
    recipe = _validated(METHODS[method].recipe, reading, method)
    if found := contradictions(recipe):
        where = {key: users_path(key, reading.values) for key in found}
        raise InputError("\n".join(f"{reading.place(where[key])}: {dotted(key)}: {found[key]}" for key in found))
    return recipe


def _validated(spec: type[Spec], reading: Reading, method: str) -> Spec:
    reading.values = values = _apart(reading.written)
    for path, value in reading.changes.items():
        put(values, path, value, spec)
    for key in bools_for_numbers(values, spec):
        raise InputError(
            f"{reading.place(key)}: {dotted(key)}: given {shown(value_at(values, key))}; it takes a number"
        )
    try:
        return spec.model_validate(values)
    except ValidationError as error:
        raise InputError(explained(error, spec, method, values, reading.place)) from None


def _apart(value: Any) -> Any:
    """A copy in which no two keys share a mapping or list, as aliases do: a change to one must not reach the other."""
    if isinstance(value, dict):
        return {key: _apart(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_apart(inner) for inner in value]
    return value


def _methods() -> str:
    return f"methods: {', '.join(METHODS)}"


def _only_names(value: Any, path: KeyPath, name: str) -> None:
    """Refuse keys that YAML reads as something other than a name (`on`, `1`, a date)."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                where = dotted(path) or "the recipe"
                raise InputError(
                    f"{name}: in {where} the key {shown(key)} is not a name; put it in quotes if it is one"
                )
            _only_names(inner, (*path, key), name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _only_names(inner, (*path, index), name)
