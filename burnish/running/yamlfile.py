"""YAML of recipes: read with the line of every key, doubled keys refused; written so that it reads back.

Only plain values are read (YAML's safe subset).
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml

from burnish.errors import InputError

Lines = dict[tuple[str | int, ...], int]
"""Path of a key -> its line in the file, counted from 1."""


def read_yaml(path: Path) -> tuple[Any, Lines]:
    """The value in a YAML file and the lines of its keys.

    Raises InputError naming file, line and column for what cannot be read, and for a key that is given twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file{_near(path)}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; give the YAML file of a recipe") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({error})") from None
    return parse_yaml(text, str(path))


def parse_yaml(text: str, name: str) -> tuple[Any, Lines]:
    """As `read_yaml`, of a text; `name` stands for the file in messages."""
    try:
        loader = yaml.SafeLoader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            lines: Lines = {}
            _walk(node, (), lines, name, ())
            return loader.construct_document(node), lines
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InputError(f"{name}{_place(error)}: not YAML ({_reason(error)})") from None
    except ValueError as error:  # a date that is none, a number too long
        raise InputError(f"{name}: a value cannot be read ({error}); put it in quotes if it is text") from None


def value_of(text: str, name: str) -> Any:
    """The value of one KEY=VALUE on the command line. Raises InputError, naming it."""
    try:
        return parse_yaml(text, name)[0]
    except InputError as error:
        raise InputError(f"{error}; quote the value for the shell and for YAML: KEY='\"text: with signs\"'") from None


def dump_yaml(value: Any) -> str:
    """`value` as YAML in the order given; short lists stay on their line."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=False)


class _Dumper(yaml.SafeDumper):
    """Lists of numbers and words on one line, nested ones below each other; no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _represent_list(dumper: _Dumper, values: list[Any]) -> yaml.Node:
    flat = not any(isinstance(value, (dict, list)) for value in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=flat)


_Dumper.add_representer(list, _represent_list)


def _walk(node: yaml.Node, path: tuple[str | int, ...], lines: Lines, name: str, above: tuple[yaml.Node, ...]) -> None:
    """Note the line of every key; refuse doubled keys and an alias that stands inside of what it names."""
    if node in above:
        raise InputError(
            f"{name}, line {node.start_mark.line + 1}: an alias refers to the mapping or list it stands in"
        )
    if isinstance(node, yaml.MappingNode):
        seen: dict[str, int] = {}
        for key, value in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{name}, line {line}, column {column}: a key must be a word")
            if key.value in seen:
                dotted = ".".join(str(part) for part in (*path, key.value))
                raise InputError(
                    f"{name}, line {line}, column {column}: {dotted} is given twice, first on line {seen[key.value]}; "
                    "remove one of the two"
                )
            seen[key.value] = lines[*path, key.value] = line
            _walk(value, (*path, key.value), lines, name, (*above, node))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            lines[*path, index] = value.start_mark.line + 1
            _walk(value, (*path, index), lines, name, (*above, node))


def _place(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f", line {mark.line + 1}, column {mark.column + 1}"


def _reason(error: yaml.YAMLError) -> str:
    problem = getattr(error, "problem", None) or getattr(error, "reason", None)
    context = getattr(error, "context", None)
    return " ".join(str(part) for part in (context, problem) if part) or str(error).splitlines()[0]


def _near(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f": there is no folder {folder}"
    names = [file.name for file in folder.iterdir() if file.suffix in (".yaml", ".yml")]
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.5)
    return f"; did you mean {folder / close[0]}?" if close else ""
