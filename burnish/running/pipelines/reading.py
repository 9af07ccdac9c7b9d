"""From a pipeline's YAML file and KEY=VALUE changes to its scopes of nodes, each checked, its recipes read.

All mistakes are told at once, each with its file and line. No torch here.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.running.mistakes import dotted, shown
from burnish.running.overrides import Changes
from burnish.running.pipelines.node import Where, read_node
from burnish.running.pipelines.spec import KINDS, NodeSpec
from burnish.running.yamlfile import KeyPath, Lines, read_yaml, value_of
from burnish.tasks.suggest import did_you_mean

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TOP = ("pipeline", "seed", "repeat", "start", "nodes")
_BLOCK = ("repeat", "start", "nodes")
_MOST = 10_000  # iterations


@dataclass(frozen=True)
class Declared:
    """A node as it stands in the file. `spec` is the recipe of a train node."""

    name: str
    kind: str
    spec: NodeSpec | Recipe
    seeded: bool
    """Whether the node sets its seed itself."""
    place: str
    """Where it stands, for messages: `FILE, line N, node NAME`."""


@dataclass(frozen=True)
class Scope:
    """Nodes that are repeated together: a named block, or (without a name) all nodes outside of blocks."""

    name: str
    repeat: int
    start: Mapping[str, str]
    """Node -> what `@previous.NODE` stands for in the first iteration."""
    nodes: tuple[Declared, ...]
    place: str


@dataclass(frozen=True)
class PipelineFile:
    """A pipeline as written."""

    name: str
    seed: int | None
    scopes: tuple[Scope, ...]
    file: str


@dataclass
class _Text:
    """What is read from: the file, the lines of its keys, the command line's changes; and the mistakes found."""

    file: str
    lines: Lines
    changes: dict[str, Changes] = field(default_factory=dict)
    """Node (BLOCK.NODE in a block) -> the changes to it."""
    mistakes: list[str] = field(default_factory=list)

    def place(self, *path: str | int) -> str:
        """`FILE, line N` of the innermost key on the path that has a line."""
        found = (self.lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.lines)
        line = next(found, None)
        return self.file if line is None else f"{self.file}, line {line}"

    def wrong(self, text: str, *path: str | int) -> None:
        """Note a mistake at a key."""
        self.mistakes.append(f"{self.place(*path)}: {text}")

    def below(self, path: KeyPath) -> Lines:
        """Lines of the keys inside a mapping, by their path in it."""
        return {key[len(path) :]: line for key, line in self.lines.items() if key[: len(path)] == path}


def read_pipeline(source: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> PipelineFile:
    """The pipeline in a YAML file (or a mapping of the same shape) with `overrides` put in.

    An override is NODE.KEY=VALUE, where KEY is a key of the node, for a train node one of its recipe; BLOCK.NODE.KEY in
    a block; or one of seed, repeat, BLOCK.repeat, start.NODE and BLOCK.start.NODE. Raises InputError naming for every
    mistake the file and line, the key, and the fix.
    """
    if isinstance(source, Mapping):
        values, lines, file = copy.deepcopy(dict(source)), {}, "pipeline"
    else:
        file = str(source)
        values, lines = read_yaml(Path(source))
    if not isinstance(values, dict) or not isinstance(values.get("nodes"), dict) or not values["nodes"]:
        raise InputError(
            f"{file} holds no pipeline: it needs `nodes:`, a mapping of names to nodes, such as "
            "`sft: {train: {recipe: sft.yaml}}`"
        )
    text = _Text(file, lines)
    _put_changes(values, overrides, text)
    _check_keys(values, _TOP, text)
    name = values.get("pipeline", Path(file).stem if lines else "pipeline")
    if not isinstance(name, str) or not name.strip() or "/" in name:
        text.wrong(f"pipeline: given {shown(name)}; it takes a name", "pipeline")
    seed = values.get("seed")
    if seed is not None and (not isinstance(seed, int) or isinstance(seed, bool) or seed < 0):
        text.wrong(f"seed: given {shown(seed)}; it takes whole number >= 0", "seed")
    scopes = tuple(_scopes(values, text))
    if text.mistakes:
        raise InputError("\n".join(text.mistakes))
    return PipelineFile(str(name), seed, scopes, file)


def _check_keys(values: Mapping[Any, Any], known: Sequence[str], text: _Text, *path: str) -> None:
    for key in values:
        if key not in known:
            where = dotted((*path[1:], str(key)))
            text.wrong(f"there is no key {where}; {did_you_mean(str(key), known)}", *path, str(key))


# ---------------------------------------------------------------- scopes


def _is_block(body: Any) -> bool:
    return isinstance(body, dict) and "nodes" in body


def _scopes(values: dict[str, Any], text: _Text) -> Iterator[Scope]:
    """The nodes outside of blocks as one scope, then each block."""
    nodes = values["nodes"]
    blocks = [name for name, body in nodes.items() if _is_block(body)]
    repeat = _repeat(values, text)
    if repeat > 1 and blocks:
        text.wrong(
            f"repeat: the pipeline is repeated as a whole, so block {blocks[0]} in it cannot be repeated as well: "
            "move its nodes out of the block, or remove the pipeline's own repeat",
            "repeat",
        )
    own = {name: body for name, body in nodes.items() if name not in blocks}
    yield _scope("", {**values, "nodes": own}, text, repeat)
    for name in blocks:
        body, path = nodes[name], ("nodes", name)
        _check_name(name, text, *path)
        _check_keys(body, _BLOCK, text, *path)
        if not isinstance(body["nodes"], dict) or not body["nodes"]:
            text.wrong(f"block {name} has no nodes: give a mapping of names to nodes, or remove it", *path)
            continue
        yield _scope(name, body, text, _repeat(body, text, *path))


def _scope(name: str, body: Mapping[str, Any], text: _Text, repeat: int) -> Scope:
    path = ("nodes", name) if name else ()
    found = [_node(name, node, inner, text, (*path, "nodes", node)) for node, inner in body["nodes"].items()]
    nodes = tuple(node for node in found if node is not None)
    return Scope(name, repeat, _start(body, text, path), nodes, text.place(*path, "start"))


def _repeat(body: Mapping[str, Any], text: _Text, *path: str) -> int:
    repeat = body.get("repeat", 1)
    if isinstance(repeat, int) and not isinstance(repeat, bool) and 1 <= repeat <= _MOST:
        return repeat
    where = dotted((*path[1:], "repeat"))
    text.wrong(f"{where}: given {shown(repeat)}; it takes whole number from 1 to {_MOST:,}", *path, "repeat")
    return 1


def _start(body: Mapping[str, Any], text: _Text, path: tuple[str, ...]) -> dict[str, str]:
    start, where = body.get("start") or {}, dotted((*path[1:], "start"))
    if not isinstance(start, dict):
        text.wrong(f"{where}: given {shown(start)}; it takes a mapping of nodes to models or files", *path, "start")
        return {}
    for node, value in start.items():
        if node not in body["nodes"]:
            meant = did_you_mean(str(node), body["nodes"])
            text.wrong(f"{where}.{node}: no node of that name is repeated here; {meant}", *path, "start", node)
        elif not isinstance(value, str) or not value:
            text.wrong(f"{where}.{node}: given {shown(value)}; it takes a path, or @node", *path, "start", node)
    return {str(node): str(value) for node, value in start.items()}


def _check_name(name: Any, text: _Text, *path: str) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        text.wrong(f"{shown(name)} is no name for a node: write letters, digits, - and _, a letter first", *path)
    elif name in (*_TOP, "previous"):
        text.wrong(f"a node cannot be called {name}, which has a meaning of its own: give it another name", *path)


def _node(block: str, name: Any, body: Any, text: _Text, path: tuple[str, ...]) -> Declared | None:
    """One node; None when it cannot be read, with its mistakes noted."""
    _check_name(name, text, *path)
    if _is_block(body):
        text.wrong(f"block {name} stands in block {block}: blocks do not nest, move it out", *path)
        return None
    if not isinstance(body, dict) or len(body) != 1:
        given = (" and ".join(str(key) for key in body) or "nothing") if isinstance(body, dict) else shown(body)
        text.wrong(
            f"node {name}: given {given}; it takes one of {', '.join(KINDS)} with its keys, such as "
            f"`{name}: {{train: {{recipe: sft.yaml}}}}`",
            *path,
        )
        return None
    [(kind, keys)] = body.items()
    if kind not in KINDS:
        text.wrong(f"node {name}: there is no kind of node {shown(kind)}; {did_you_mean(str(kind), KINDS)}", *path)
        return None
    if not isinstance(keys, dict):
        text.wrong(f"node {name}: {kind} is {shown(keys)}, but it has keys of its own: give those", *path, kind)
        return None
    label = f"{block}.{name}" if block else name
    where = Where(text.file, text.lines.get(path), text.below((*path, kind)), label)
    try:
        spec, seeded = read_node(kind, keys, text.changes.get(label, {}), where)
    except InputError as error:
        text.mistakes.append(str(error))
        return None
    return Declared(name, kind, spec, seeded, where.at())


# ---------------------------------------------------------------- the command line


def _put_changes(values: dict[str, Any], overrides: Sequence[str], text: _Text) -> None:
    """Put the pipeline's own keys in, and hand each node its changes. Raises InputError for what is none."""
    seen: set[str] = set()
    for change in overrides:
        key, equals, value = (part.strip() for part in change.partition("="))
        if not equals or not key or not value:
            raise InputError(f"command line: {change!r} is no change; write NODE.KEY=VALUE, such as sft.steps=20")
        if key in seen:
            raise InputError(f"command line: {key} is given twice; give it once")
        seen.add(key)
        first, _, rest = key.partition(".")
        body = values["nodes"].get(first)
        if rest and _is_block(body) and isinstance(body["nodes"], dict):
            _put_change(body, first, rest.split("."), value_of(value, f"command line, {key}"), key, text)
        else:
            _put_change(values, "", key.split("."), value_of(value, f"command line, {key}"), key, text)


def _put_change(scope: dict[str, Any], block: str, parts: list[str], value: Any, key: str, text: _Text) -> None:
    own = ("repeat",) if block else ("pipeline", "seed", "repeat")
    if len(parts) == 1 and parts[0] in own:
        scope[parts[0]] = value
    elif len(parts) == 2 and parts[0] == "start":
        scope["start"] = {**(scope.get("start") or {}), parts[1]: value}
    elif len(parts) > 1 and parts[0] in scope["nodes"]:
        node = f"{block}.{parts[0]}" if block else parts[0]
        path = tuple(int(part) if part.isdigit() else part for part in parts[1:])
        text.changes.setdefault(node, {})[path] = value
    else:
        known = [*(own if len(parts) == 1 else ()), *(str(name) for name in scope["nodes"])]
        what = "key or node" if len(parts) == 1 else "node"
        raise InputError(f"command line: {key}: there is no {what} {parts[0]}; {did_you_mean(parts[0], known)}")
