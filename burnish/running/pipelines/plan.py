"""What is done of a pipeline, and what would run and why. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from burnish.errors import InputError
from burnish.running.mistakes import dotted, shown
from burnish.running.pipelines.artefacts import Artefact, Resolved, Store, resolve
from burnish.running.pipelines.contents import Content, Contents, outside_contents
from burnish.running.pipelines.graph import Graph, Node

State = Literal["done", "half done", "to do", "waiting"]
"""waiting: what it takes is not there yet, so that nobody knows whether it will have to run."""

_SHOWN_CHANGES = 3


@dataclass(frozen=True)
class Step:
    """One node of a plan."""

    node: Node
    state: State
    why: str
    """In words: what was made when, what changed, or what it waits for."""
    resolved: Resolved | None = None
    artefact: Artefact | None = None


def outside_of(graph: Graph, contents: Contents) -> dict[str, list[Content]]:
    """What each node takes from outside, by the node's id.

    Raises InputError, naming every node and key, for files, folders and functions that are not there.
    """
    found: dict[str, list[Content]] = {}
    mistakes: dict[str, None] = {}
    for node in graph.nodes:
        try:
            found[node.id] = outside_of_node(node, contents)
        except InputError as error:
            mistakes[str(error)] = None
    if mistakes:
        raise InputError("\n".join(mistakes))
    return found


def outside_of_node(node: Node, contents: Contents) -> list[Content]:
    """What one node takes from outside. Raises InputError as `outside_of` does."""
    try:
        return list(outside_contents(node.spec, [source.key for source in node.inputs], contents))
    except InputError as error:
        raise InputError(f"{node.place}: {error}") from None


def plan(graph: Graph, store: Store, contents: Contents) -> list[Step]:
    """Every node in order with what is to be done. Raises InputError as `outside_of` does."""
    outside = outside_of(graph, contents)
    made: dict[str, Artefact] = {}
    steps = []
    for node in graph.nodes:
        step = look(node, made, outside[node.id], store)
        if step.artefact is not None:
            made[node.id] = step.artefact
        steps.append(step)
    return steps


def look(node: Node, made: Mapping[str, Artefact], outside: list[Content], store: Store) -> Step:
    """What is to be done for a node, when the artefacts in `made` are there."""
    if waits := [source.node for source in node.inputs if source.node not in made]:
        return Step(node, "waiting", f"waits for {', '.join(dict.fromkeys(waits))}")
    resolved = resolve(node, made, outside)
    artefact = store.find(resolved)
    if artefact is not None:
        return Step(node, "done", f"made {artefact.provenance['finished']}", resolved, artefact)
    if store.begun(resolved):
        return Step(node, "half done", "goes on where it was interrupted", resolved)
    before = store.latest(node.id)
    return Step(node, "to do", "not made yet" if before is None else _changes(before, resolved), resolved)


def _changes(before: Artefact, resolved: Resolved) -> str:
    """What is not as it was when a node of that name made its last artefact."""
    old, new = before.provenance, resolved
    found = []
    if old["kind"] != new.node.kind:
        found.append(f"it was a {old['kind']} node")
    for key in dict.fromkeys([*old["inputs"], *new.inputs]):
        one, two = old["inputs"].get(key), new.inputs.get(key)
        if one and two and one["hash"] != two["hash"]:
            found.append(f"{key} {two['value']} has changed")
    was, now = dict(_leaves(old["settings"])), dict(_leaves(new.settings))
    for key in dict.fromkeys([*was, *now]):
        if was.get(key) != now.get(key) and not (key in old["inputs"] and key in new.inputs):
            found.append(f"{key} {shown(was.get(key))} -> {shown(now.get(key))}")
    more = [f"and {len(found) - _SHOWN_CHANGES} more"] if len(found) > _SHOWN_CHANGES else []
    return "; ".join([*found[:_SHOWN_CHANGES], *more]) or "not made with these settings yet"


def _leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        for place, inner in enumerate(value):
            yield from _leaves(inner, (*path, place))
    else:
        yield dotted(path), value
