"""One node of a pipeline: its keys checked, for a train node its recipe read. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from burnish.errors import InputError
from burnish.feedback.spec import FeedbackSpec, FunctionSpec
from burnish.methods.recipe import Recipe
from burnish.running.config import Reading, recipe_of, spec_of
from burnish.running.overrides import Changes
from burnish.running.pipelines.spec import KINDS, NodeSpec, TrainSpec
from burnish.running.yamlfile import KeyPath, Lines, read_yaml

Spec = TypeVar("Spec", bound=NodeSpec)


@dataclass(frozen=True)
class Where:
    """Where a node stands: the file, its own line in it and those of its keys, and its name."""

    file: str
    line: int | None
    lines: Lines
    node: str

    def at(self, *key: str | int) -> str:
        """`FILE, line N, node NAME` of the innermost part of a key that has a line, or of the node."""
        nearest = (self.lines[key[:n]] for n in range(len(key), 0, -1) if key[:n] in self.lines)
        line = next(nearest, self.line)
        return f"{self.file}{'' if line is None else f', line {line}'}, node {self.node}"


@dataclass
class _Reading(Reading):
    """The keys of a node, or of its recipe, with the changes from `set` and from the command line."""

    where: Where = field(kw_only=True)
    set_at: Mapping[KeyPath, str] = field(default_factory=dict)
    """Changes that do not come from the command line, each with its place."""
    recipe: bool = False
    """Whether this is a recipe in a file of its own."""

    def place(self, key: KeyPath) -> str:
        for path in self.changes:
            if key[: len(path)] == path:
                return self.set_at.get(path, f"command line, node {self.where.node}")
        if not self.recipe:
            return Where(self.name, self.where.line, self.lines, self.where.node).at(*key)
        changed = " with its changes" if any(path[: len(key)] == key for path in self.changes) else ""
        return f"{Reading(self.name, self.written, self.lines).place(key)}, for node {self.where.node}{changed}"


def read_node(kind: str, keys: Mapping[str, Any], changes: Changes, where: Where) -> tuple[NodeSpec | Recipe, bool]:
    """The spec of a node (of a train node: its recipe), and whether the node sets its seed itself.

    `changes` are the command line's. Raises InputError naming the mistakes.
    """
    spec, seeded = (_recipe if kind == "train" else _other)(kind, keys, changes, where)
    rewards = getattr(spec, "rewards", None)
    for reward in rewards.rewards if isinstance(rewards, FeedbackSpec) else ():
        if isinstance(reward, FunctionSpec) and not isinstance(reward.function, str):
            raise InputError(
                f'{where.at("rewards")}: name a reward function as "file.py:name" or "package.module:name", so that a '
                "change of it is noticed"
            )
    return spec, seeded


def _other(kind: str, keys: Mapping[str, Any], changes: Changes, where: Where) -> tuple[NodeSpec, bool]:
    values, changed = dict(keys), dict(changes)
    if kind in ("sample", "evaluate"):
        for key in ("model", "data"):  # a text alone is a path, in the file and on the command line
            if isinstance(values.get(key), str):
                values[key] = {"path": values[key]}
            if isinstance(changed.get((key,)), str):
                changed[key, "path"] = changed.pop((key,))
    if kind == "merge" and isinstance(values.get("models"), list):
        values["models"] = [{"path": model} if isinstance(model, str) else model for model in values["models"]]
    spec = _checked(KINDS[kind], _Reading(where.file, values, where.lines, changed, where=where))
    return spec, getattr(spec, "seed", None) is not None


def _checked(spec: type[Spec], reading: _Reading) -> Spec:
    try:
        return spec_of(spec, reading)
    except InputError as error:  # of what is wrong with several keys together it says "recipe"
        raise InputError(str(error).replace(f"{reading.place(())}: recipe: ", f"{reading.place(())}: ")) from None


def _recipe(kind: str, keys: Mapping[str, Any], changes: Changes, where: Where) -> tuple[Recipe, bool]:
    if wrong := next((path for path in changes if path[0] == "set"), None):
        key = ".".join(str(part) for part in (where.node, *(wrong[1:] or ["KEY"])))
        raise InputError(f"command line: a recipe's key follows the name of the node: write {key}=...")
    own = {path: value for path, value in changes.items() if path == ("recipe",)}
    spec = _checked(TrainSpec, _Reading(where.file, keys, where.lines, own, where=where))
    command = {path: value for path, value in changes.items() if path not in own}
    from_set = {
        path: value
        for path, value in _leaves(spec.set)
        if not any(path[: len(stronger)] == stronger for stronger in command)
    }
    set_at = {path: where.at("set", ".".join(str(part) for part in path)) for path in from_set}
    if isinstance(spec.recipe, str):
        try:
            written, lines = read_yaml(Path(spec.recipe))
        except InputError as error:
            raise InputError(f"{'command line' if own else where.at('recipe')}: {error}") from None
        name = spec.recipe
    else:
        written, name = spec.recipe, where.file
        lines = {path[1:]: line for path, line in where.lines.items() if path[:1] == ("recipe",)}
    reading = _Reading(
        name, written, lines, {**from_set, **command}, where=where, set_at=set_at, recipe=name != where.file
    )
    try:
        return recipe_of(reading), ("seed",) in reading.changes
    except InputError as error:
        if command:
            raise
        raise InputError(str(error).replace("command line:", f"{where.at('set')}:")) from None


def _leaves(values: Mapping[str, Any], above: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Keys and values of `set`; dots lead into a part, and so does a mapping, since a part is changed key by key."""
    for key, value in values.items():
        path = (*above, *(int(part) if part.isdigit() else part for part in str(key).split(".")))
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, path)
        else:
            yield path, value
