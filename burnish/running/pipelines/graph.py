"""From the scopes of a pipeline to its graph: repeats unrolled, references resolved, kinds checked, nodes in order.

No torch here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.running.mistakes import dotted
from burnish.running.pipelines.reading import Declared, PipelineFile, Scope
from burnish.running.pipelines.spec import KINDS, FilterSpec, JudgeSpec, Made, NodeSpec, SampleSpec
from burnish.running.yamlfile import KeyPath
from burnish.tasks.suggest import did_you_mean

_PREVIOUS = "previous"
_SLOTS: Mapping[str, Made] = {
    "model": "model", "models": "model", "adapter": "adapter", "data": "dataset", "mix": "dataset",
}  # fmt: skip
"""The part of a spec whose `path` may be a reference -> what it has to be."""
_NEEDED = {"model": "a model", "adapter": "an adapter", "dataset": "a dataset", "report": "a report"}


@dataclass(frozen=True)
class Input:
    """A key of a node that another node's artefact stands for."""

    key: KeyPath
    wants: Made
    text: str
    """As written: `@sft`."""
    node: str
    """The node that makes it."""


@dataclass(frozen=True)
class Node:
    """A node of the graph. `id` is its name, with the block before it and the iteration behind it where repeated."""

    id: str
    kind: str
    spec: NodeSpec | Recipe
    """Of a train node its recipe. Seeds are filled in; inputs still stand as references."""
    inputs: tuple[Input, ...]
    place: str

    @property
    def makes(self) -> tuple[Made, ...]:
        """The artefacts that others may refer to."""
        if isinstance(self.spec, Recipe) and self.spec.model.adapter is not None:
            return ("model", "adapter")
        return (KINDS[self.kind].makes,)


@dataclass(frozen=True)
class Graph:
    """A pipeline, ready to be planned: its nodes so that each comes after those it takes from."""

    name: str
    file: str
    nodes: tuple[Node, ...]

    def __getitem__(self, id: str) -> Node:
        return next(node for node in self.nodes if node.id == id)


def build_graph(pipeline: PipelineFile) -> Graph:
    """Unroll and check a pipeline.

    Raises InputError, naming file and line, for a reference to a node that is not there or makes something else, for
    `@previous` outside of a repeat or without a start, for a start that nothing uses, and for a cycle.
    """
    mistakes: list[str] = []
    nodes = [
        node
        for scope in pipeline.scopes
        for iteration in range(1, scope.repeat + 1)
        for node in _iteration(pipeline, scope, iteration, mistakes)
    ]
    _check_starts(pipeline, mistakes)
    if not mistakes:
        by_id = {node.id: node for node in nodes}
        nodes = _ordered(by_id)
        mistakes = [mistake for node in nodes for mistake in _misfits(node, by_id)]
    if mistakes:
        raise InputError("\n".join(dict.fromkeys(mistakes)))
    return Graph(pipeline.name, pipeline.file, tuple(nodes))


def node_id(scope: Scope, name: str, iteration: int) -> str:
    """`tune`, `improve.tune` in a block, and with `.2` behind in the second of several iterations."""
    return ".".join([*([scope.name] if scope.name else []), name, *([str(iteration)] if scope.repeat > 1 else [])])


# ---------------------------------------------------------------- unrolling


def _iteration(pipeline: PipelineFile, scope: Scope, iteration: int, mistakes: list[str]) -> Iterator[Node]:
    for declared in scope.nodes:
        spec = _seeded(declared, pipeline.seed, iteration)
        inputs: list[Input] = []
        for key, text, wants in references(spec):
            try:
                target = _target(pipeline, scope, iteration, text)
            except InputError as error:
                mistakes.append(f"{declared.place}: {dotted(key)}: {error}")
                continue
            if target.startswith("@"):
                inputs.append(Input(key, wants, text, target[1:]))
            else:  # a start value that is a path
                spec = with_value(spec, key, target)
        yield Node(node_id(scope, declared.name, iteration), declared.kind, spec, tuple(inputs), declared.place)


def _seeded(declared: Declared, seed: int | None, iteration: int) -> NodeSpec | Recipe:
    """The spec with its seed: its own; or the pipeline's (or a recipe's), and one more in each further iteration.

    An evaluation keeps its seed, so that iterations are compared on the same items.
    """
    spec = declared.spec
    if declared.seeded or "seed" not in type(spec).model_fields:
        return spec
    first = seed if seed is not None else spec.seed if isinstance(spec, Recipe) else 0
    return spec.model_copy(update={"seed": first if declared.kind == "evaluate" else first + iteration - 1})


def references(spec: NodeSpec | Recipe) -> Iterator[tuple[KeyPath, str, Made]]:
    """Every key of a spec that holds a reference: the key, the reference, and what it has to be."""
    if isinstance(spec, (JudgeSpec, FilterSpec)):
        if spec.data.startswith("@"):
            yield ("data",), spec.data, "dataset"
        return
    for key, value in texts(spec.model_dump(mode="json")):
        names = [part for part in key if isinstance(part, str)]
        if value.startswith("@") and len(names) > 1 and names[-1] == "path" and names[-2] in _SLOTS:
            yield key, value, _SLOTS[names[-2]]


def texts(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, str]]:
    """Every text inside a JSON value, with its place."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from texts(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from texts(inner, (*path, place))


def with_value(spec: NodeSpec | Recipe, key: KeyPath, value: str) -> NodeSpec | Recipe:
    """The spec with another text at a key."""
    values = spec.model_dump(mode="json")
    part: Any = values
    for step in key[:-1]:
        part = part[step]
    part[key[-1]] = value
    return type(spec).model_validate(values)


def _target(pipeline: PipelineFile, scope: Scope, iteration: int, text: str) -> str:
    """`@ID` of the node that a reference means, or the path that a start value gives. Raises InputError."""
    parts = text[1:].split(".")
    own = [node.name for node in scope.nodes]
    if parts[0] == _PREVIOUS:
        return _previous(pipeline, scope, iteration, text, own)
    if len(parts) == 1 and parts[0] in own:
        return f"@{node_id(scope, parts[0], iteration)}"
    for other in pipeline.scopes:
        names = [node.name for node in other.nodes]
        if (other.name and parts[0] == other.name) or (not other.name and len(parts) == 1 and parts[0] in names):
            name = ".".join(parts[1:]) if other.name else parts[0]
            if name in names and other is not scope:
                return f"@{node_id(other, name, other.repeat)}"  # from outside: what the last iteration made
            short = f"; inside of block {scope.name} write @{name}" if other is scope and name in names else ""
            raise InputError(f"{text} is not a node{short or _meant(text, [f'@{other.name}.{n}' for n in names])}")
    others = [(other.name, node.name) for other in pipeline.scopes if other is not scope for node in other.nodes]
    known = [*(f"@{name}" for name in own), *(f"@{block}.{name}" if block else f"@{name}" for block, name in others)]
    raise InputError(f"there is no node {text}{_meant(text, known)}")


def _meant(name: str, known: Sequence[str]) -> str:
    return f"; {did_you_mean(name, known)}"


def _previous(pipeline: PipelineFile, scope: Scope, iteration: int, text: str, own: Sequence[str]) -> str:
    name = text[len(_PREVIOUS) + 2 :]
    if name not in own:
        raise InputError(
            f"{text} must name a node that is repeated here{_meant(name, [f'@{_PREVIOUS}.{n}' for n in own])}"
        )
    if iteration > 1:
        return f"@{node_id(scope, name, iteration - 1)}"
    if scope.repeat == 1 and not scope.start:
        raise InputError(f"{text} is for nodes that are repeated, and these are not: add repeat, or write @{name}")
    if name not in scope.start:
        where = f"block {scope.name}" if scope.name else "the pipeline"
        raise InputError(
            f"{text} has no meaning in the first iteration: say what it starts from, in {where}: "
            f"`start: {{{name}: PATH_OR_@NODE}}`"
        )
    start = scope.start[name]
    if not start.startswith("@"):
        return start
    if start[1:] in own or start.startswith(f"@{_PREVIOUS}"):
        raise InputError(f"start.{name} is {start}, which is repeated itself: name a path, or a node outside")
    return _target(pipeline, scope, iteration, start)


def _check_starts(pipeline: PipelineFile, mistakes: list[str]) -> None:
    for scope in pipeline.scopes:
        used = {text[len(_PREVIOUS) + 2 :] for node in scope.nodes for _, text, _ in references(node.spec)
                if text.startswith(f"@{_PREVIOUS}.")}  # fmt: skip
        mistakes.extend(
            f"{scope.place}: start.{name} is unused: no node here refers to @previous.{name}; remove it"
            for name in scope.start
            if name not in used
        )


# ---------------------------------------------------------------- checking


def _ordered(nodes: Mapping[str, Node]) -> list[Node]:
    """The nodes so that each comes after those it takes from, otherwise in the order given."""
    place = {id: number for number, id in enumerate(nodes)}
    sorter = TopologicalSorter({id: {source.node for source in node.inputs} for id, node in nodes.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        ring = error.args[1]
        raise InputError(
            f"{nodes[ring[0]].place}: the nodes take from each other in a ring: {' -> '.join(ring)}; for the artefact "
            "of the iteration before, write @previous.NODE"
        ) from None
    ordered: list[Node] = []
    ready: list[tuple[int, str]] = []
    while sorter.is_active():
        for id in sorter.get_ready():
            heapq.heappush(ready, (place[id], id))
        _, id = heapq.heappop(ready)
        ordered.append(nodes[id])
        sorter.done(id)
    return ordered


def _misfits(node: Node, nodes: Mapping[str, Node]) -> Iterator[str]:
    """What is wrong with a node's inputs: their kinds, missing rewards, the form of their prompts."""
    for source in node.inputs:
        maker = nodes[source.node]
        where = f"{node.place}: {dotted(source.key)}"
        if source.wants not in maker.makes:
            more = "; it trains all weights" if source.wants == "adapter" and "model" in maker.makes else ""
            yield (
                f"{where}: {source.text} makes {' and '.join(_NEEDED[m] for m in maker.makes)}, and "
                f"{_NEEDED[source.wants]} is needed here{more}"
            )
        elif source.wants == "dataset":
            yield from _unfit_rows(node, source, maker, nodes, where)


def _unfit_rows(node: Node, source: Input, maker: Node, nodes: Mapping[str, Node], where: str) -> Iterator[str]:
    line = list(_upstream(maker, nodes))
    judged = any(each.kind == "judge" for each in line)
    if isinstance(node.spec, FilterSpec) and node.spec.reads_rewards and line[-1].kind == "sample" and not judged:
        yield f"{where}: the conditions of this filter need rewards, which {source.text} has none of: judge it first"
    data = getattr(node.spec, "data", None)
    if source.key[0] == "evaluation":
        data = getattr(node.spec, "evaluation").data  # noqa: B009 - only recipes have it
    first = line[-1].spec
    if "mix" in source.key:
        data = getattr(data, "mix")[source.key[-2]]  # noqa: B009 - only recipes have it
    if isinstance(first, SampleSpec) and first.data.style == "text" and getattr(data, "style", "text") != "text":
        key = ".".join([*(str(part) for part in source.key[:-1]), "style"])
        yield f"{where}: the prompts of {source.text} are plain texts: set {key}: text, as where they were sampled"


def _upstream(node: Node, nodes: Mapping[str, Node]) -> Iterator[Node]:
    """A dataset's node and those it came through, up to the one that sampled it."""
    yield node
    for source in node.inputs:
        if source.wants == "dataset" and not isinstance(node.spec, (SampleSpec, Recipe)):
            yield from _upstream(nodes[source.node], nodes)
