"""YAML of recipes: read with the line of every key, doubled keys refused; written so that it reads back.

Only plain values are read (YAML's safe subset). A merge (`<<: *base`) gives a mapping the keys that it does not write
itself: to write one of them is what a merge is for. The same key from two merges at once is refused.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import yaml

from burnish.errors import InputError

KeyPath = tuple[str | int, ...]
"""Names and places in lists: ("rewards", 0, "weight")."""

Lines = dict[KeyPath, int]
"""Path of a key -> the line in the file where its value is written, counted from 1."""

MOST_VALUES = 100_000
"""Values in a file, those counted again that an alias repeats. A recipe has a few hundred."""

_MERGE = "tag:yaml.org,2002:merge"


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
            walk = _Walk(name)
            walk.visit(node, (), ())
            return loader.construct_document(node), walk.lines
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        raise InputError(f"{name}{_place(error)}: not YAML ({_reason(error)})") from None
    except RecursionError:
        raise InputError(f"{name}: nested too deeply to read; the keys of a recipe lie a few levels deep") from None
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


def _represent_text(dumper: _Dumper, text: str) -> yaml.Node:
    # YAML counts these as line ends, and only double quotes keep them
    odd = any(sign in text for sign in "\x85\u2028\u2029")
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if odd else None)


_Dumper.add_representer(str, _represent_text)


class _Walk:
    """Notes the line of every key; refuses doubled keys, aliases that stand inside of what they name, and bombs."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: Lines = {}
        self._values = 0

    def visit(self, node: yaml.Node, path: KeyPath, above: tuple[yaml.Node, ...]) -> None:
        """A value and everything in it."""
        self._enter(node, above)
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path, (*above, node))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                self.lines[*path, index] = value.start_mark.line + 1
                self.visit(value, (*path, index), (*above, node))

    def _enter(self, node: yaml.Node, above: tuple[yaml.Node, ...]) -> None:
        if node in above:
            raise InputError(
                f"{self.name}, line {node.start_mark.line + 1}: an alias refers to the mapping or list it stands in"
            )
        self._values += 1
        if self._values > MOST_VALUES:
            raise InputError(
                f"{self.name}, line {node.start_mark.line + 1}: more than {MOST_VALUES:,} values, with those that "
                "aliases repeat; a recipe has a few hundred: remove the aliases"
            )

    def _mapping(self, node: yaml.MappingNode, path: KeyPath, above: tuple[yaml.Node, ...]) -> None:
        own, merges = self._keys(node, path)
        for name, (line, value) in own.items():
            self.lines[*path, name] = line
            self.visit(value, (*path, name), above)
        self._merged(merges, path, above, set(own), {})

    def _keys(self, node: yaml.MappingNode, path: KeyPath) -> tuple[dict[str, tuple[int, yaml.Node]], list[yaml.Node]]:
        """The keys that a mapping writes itself, with their lines, and what it merges. Refuses a key given twice."""
        seen: dict[str, int] = {}
        own: dict[str, tuple[int, yaml.Node]] = {}
        merges: list[yaml.Node] = []
        for key, value in node.value:
            line, column = key.start_mark.line + 1, key.start_mark.column + 1
            if not isinstance(key, yaml.ScalarNode):
                raise InputError(f"{self.name}, line {line}, column {column}: a key must be a word")
            if key.value in seen:
                raise InputError(
                    f"{self.name}, line {line}, column {column}: {_dotted(path, key.value)} is given twice, first on "
                    f"line {seen[key.value]}; remove one of the two"
                )
            seen[key.value] = line
            if key.tag == _MERGE:
                merges += value.value if isinstance(value, yaml.SequenceNode) else [value]
            else:
                own[key.value] = (line, value)
        return own, merges

    def _merged(
        self,
        nodes: list[yaml.Node],
        path: KeyPath,
        above: tuple[yaml.Node, ...],
        shadow: set[str],
        found: dict[str, int],
    ) -> None:
        """The keys that merged mappings add: those not in `shadow`; `found` holds what came by earlier ones."""
        for node in nodes:
            self._enter(node, above)
            if not isinstance(node, yaml.MappingNode):
                continue  # the loader refuses it, in its own words
            own, merges = self._keys(node, path)
            for name, (line, value) in own.items():
                if name in shadow:
                    continue
                if name in found:
                    raise InputError(
                        f"{self.name}: {_dotted(path, name)} is merged twice, from line {found[name]} and from line "
                        f"{line}; write it beside the merge, or leave one merge out"
                    )
                found[name] = self.lines[*path, name] = line
                self.visit(value, (*path, name), above)
            self._merged(merges, path, (*above, node), shadow | set(own), found)


def _dotted(path: KeyPath, key: str) -> str:
    return ".".join(str(part) for part in (*path, key))


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
