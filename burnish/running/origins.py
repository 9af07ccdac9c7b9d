"""Where each value of a resolved recipe comes from: a line of the file, the command line, or a default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import yaml

from burnish.methods.recipe import Recipe
from burnish.running.config import Reading, read_recipe, resolved_yaml
from burnish.running.keys import model_at
from burnish.running.mistakes import dotted
from burnish.running.yamlfile import KeyPath

LONGEST_ALIGNED = 60
"""Comments stand in one column behind lines up to this long, and two spaces behind longer ones."""


@dataclass(frozen=True)
class Origin:
    """Where one value comes from."""

    source: Literal["default", "file", "command line", "both"]
    """`both`: a list of the file, one entry of which the command line changes."""
    file: str = ""
    line: int | None = None
    short: bool = False
    """Whether it was written as a bare name, such as `rewards: numeric`."""

    def __str__(self) -> str:
        """As it is printed: `default`, `demo.yaml:7`, `short form, demo.yaml:9`, `command line`."""
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        words = {"default": "default", "file": place, "command line": "command line", "both": f"{place}, command line"}
        return f"short form, {words[self.source]}" if self.short else words[self.source]


def recipe_with_origins(path: str | Path, overrides: Sequence[str] = ()) -> tuple[Recipe, dict[str, Origin]]:
    """A recipe, and the origin of each of its values by dotted key (`rewards.rewards.0.weight`).

    A list of plain values is one value. Raises InputError as `load_recipe` does.
    """
    recipe, reading = read_recipe(path, overrides)
    leaves = _leaves(recipe.model_dump(mode="json"), ())
    return recipe, {dotted(leaf): _origin(leaf, type(recipe), reading) for leaf in leaves}


def resolved_with_origins(path: str | Path, overrides: Sequence[str] = ()) -> str:
    """The resolved recipe as YAML, with the origin of each value as a comment behind it. It loads as a recipe again.

    Raises InputError as `load_recipe` does.
    """
    recipe, origins = recipe_with_origins(path, overrides)
    text = resolved_yaml(recipe)
    comments = {line: str(origins[dotted(leaf)]) for leaf, line in _last_lines(text).items()}
    lines = text.removesuffix("\n").split("\n")
    column = max(len(lines[number]) for number in comments if len(lines[number]) <= LONGEST_ALIGNED) + 2
    for number, comment in comments.items():
        lines[number] = f"{lines[number]:<{max(column, len(lines[number]) + 2)}}# {comment}"
    return "".join(f"{line}\n" for line in lines)


def _leaves(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    """Paths of values, and of lists without a mapping in them."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and any(isinstance(inner, Mapping) for inner in value):
        for index, inner in enumerate(value):
            yield from _leaves(inner, (*path, index))
    else:
        yield path


def _last_lines(text: str) -> dict[KeyPath, int]:
    """Path of each value in a YAML text -> the line on which it ends, counted from 0."""
    found: dict[KeyPath, int] = {}

    def visit(node: yaml.Node, path: KeyPath) -> None:
        if isinstance(node, yaml.MappingNode) and node.value:
            for key, value in node.value:
                visit(value, (*path, key.value))
        elif isinstance(node, yaml.SequenceNode) and any(isinstance(each, yaml.MappingNode) for each in node.value):
            for index, value in enumerate(node.value):
                visit(value, (*path, index))
        else:
            found[path] = node.end_mark.line

    visit(yaml.compose(text, Loader=yaml.SafeLoader), ())
    return found


def _origin(leaf: KeyPath, recipe: type[Recipe], reading: Reading) -> Origin:
    file = "".join(letter if letter.isprintable() else "?" for letter in Path(reading.name).name)
    given, short = _as_written(leaf, recipe, reading.values)
    if given is None:
        asked = any(value is None and leaf[: len(path)] == path for path, value in reading.changes.items())
        return Origin("command line" if asked else "default")
    if any(given[: len(path)] == path for path in reading.changes):
        return Origin("command line", short=short)
    before, short = _as_written(leaf, recipe, reading.written)
    assert before is not None  # what no change gave is the file's
    line = next(reading.lines[before[:n]] for n in range(len(before), 0, -1) if before[:n] in reading.lines)
    both = any(path[: len(given)] == given for path in reading.changes)
    return Origin("both" if both else "file", file, line, short)


def _as_written(leaf: KeyPath, recipe: type[Recipe], values: Any) -> tuple[KeyPath | None, bool]:
    """Where the user wrote a value of the resolved recipe, and whether as a bare name; None when nowhere."""
    node: Any = values
    path: KeyPath = ()
    depth = 0
    while depth < len(leaf):
        part = leaf[depth]
        if isinstance(part, int) if isinstance(node, list) else isinstance(node, Mapping) and part in node:
            node, path = cast(Any, node)[part], (*path, part)
        elif part == "rewards" and _is_rewards(recipe, leaf[:depth]):
            depth += not isinstance(node, list)  # one reward stands for the first entry of the list
        else:
            named = part == "kind" and isinstance(node, str)
            return (path, True) if named else (None, False)
        depth += 1
    return path, False


def _is_rewards(recipe: type[Recipe], path: KeyPath) -> bool:
    """Whether the part at a path is one in whose place a reward or a list of them may stand."""
    return bool(path) and any("rewards" in model.model_fields for model in model_at(recipe, path))
