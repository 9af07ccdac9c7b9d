"""From groups to the flat tokens of one optimizer step.

Only counted members enter: a masked span, or one whose verdict does not count, contributes neither tokens nor
denominators, and nodes that lead to no counted member are not even computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError, PromiseError
from burnish.losses.build import SAMPLER_LOGPROB
from burnish.losses.reductions import Incidence
from burnish.losses.term import Term
from burnish.traces import Group, Node, SignalKind, Span, Trace

Floats = npt.NDArray[np.float64]


@dataclass
class Tree:
    """The part of a trace that counted members need: node indices with every parent before its children."""

    trace: Trace
    nodes: list[int]
    leaves: list[int]
    trained: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = field(default_factory=dict)
    """Per node: offsets within the node, and the flat indices, of its trained tokens."""


@dataclass
class StepTokens:
    """The M trained tokens of an optimizer step, flat."""

    trees: list[Tree]
    incidence: Incidence
    signals: dict[str, Floats]
    """Every stream and every signal the terms read, [M]; NaN where absent."""
    temperature: Floats
    """Sampling temperature of each token, 1 where no model sampled it."""
    support: dict[int, npt.NDArray[np.int32]]
    """Kept token ids of the tokens whose sampling was truncated."""
    greedy: npt.NDArray[np.bool_]
    """Tokens that were chosen greedily: no ratio can be taken on them."""

    def __len__(self) -> int:
        return self.incidence.tokens

    @cached_property
    def transformed(self) -> npt.NDArray[np.bool_]:
        """Tokens whose sampling distribution is not the model's own."""
        changed = self.temperature != 1.0
        changed[list(self.support)] = True
        return changed


def all_members(groups: Sequence[Group]) -> Iterator[tuple[int, Span]]:
    """Every distinct member span with the index of the first group that holds it, nested groups included."""
    seen: set[int] = set()
    for index, group in enumerate(groups):
        stack = [group]
        while stack:
            current = stack.pop(0)
            for span in current.members:
                if id(span) not in seen:
                    seen.add(id(span))
                    yield index, span
            stack.extend(current.children)


def collect(groups: Sequence[Group], terms: Sequence[Term]) -> StepTokens:
    """Gather the trained tokens of `groups` for `terms`. Raises InputError when a needed signal is missing."""
    streams = tuple(dict.fromkeys(t.stream for t in terms))
    reads = tuple(dict.fromkeys(r for t in terms for r in t.reads))
    trees: dict[int, Tree] = {}
    index_of: dict[tuple[int, int], npt.NDArray[np.int64]] = {}
    columns: dict[str, list[Floats]] = {name: [] for name in (*streams, *reads)}
    places: list[tuple[Tree, int, npt.NDArray[np.int64]]] = []
    pair_token: list[npt.NDArray[np.int64]] = []
    pair_sequence: list[npt.NDArray[np.int64]] = []
    sequence_group: list[int] = []
    count = 0
    for group_index, span in all_members(groups):
        if not span.counts:
            continue
        tree = trees.setdefault(id(span.trace), Tree(span.trace, [], []))
        tree.leaves.append(span.leaf)
        start = 0
        for node_index in span.trace.path(span.leaf):
            node = span.trace.nodes[node_index]
            key = (id(span.trace), node_index)
            if key not in index_of:
                _check_authors(span.trace, node_index, terms)
                tree.nodes.append(node_index)
                trained = _present(node, streams)
                index_of[key] = np.where(trained, count + np.cumsum(trained) - 1, -1)
                count += int(trained.sum())
                places.append((tree, node_index, np.flatnonzero(trained)))
                for name, parts in columns.items():
                    parts.append(_signal(node, name)[trained])
            inside = np.arange(start, start + len(node))
            chosen = index_of[key][(inside >= span.start) & (inside < (span.stop or 0))]
            chosen = chosen[chosen >= 0]
            pair_token.append(chosen)
            pair_sequence.append(np.full(len(chosen), len(sequence_group), dtype=np.int64))
            start += len(node)
        sequence_group.append(group_index)
    incidence = Incidence(
        count,
        np.concatenate([*pair_token, np.zeros(0, dtype=np.int64)]),
        np.concatenate([*pair_sequence, np.zeros(0, dtype=np.int64)]),
        np.array(sequence_group, dtype=np.int64),
    )
    return _assemble(list(trees.values()), places, incidence, columns, terms)


def _check_authors(trace: Trace, node_index: int, terms: Sequence[Term]) -> None:
    """Promise E7 once more: whoever wrote the signal, a policy gradient sits on the learner's own tokens alone."""
    node = trace.nodes[node_index]
    for term in terms:
        signal = node.signals.get(term.stream)
        if not term.policy or signal is None:
            continue
        foreign = ~np.isnan(signal.values) & ~trace.sampled_by(node_index, term.learner)
        if signal.kind is not SignalKind.POLICY or foreign.any():
            raise PromiseError(
                f"E7: term {term.name!r} is a policy gradient of model {term.learner!r}, but signal {term.stream!r} "
                f"on node {node_index} of trace {trace.id!r} is of kind {signal.kind.value!r} or sits on tokens that "
                "the model did not sample"
            )


def _present(node: Node, streams: Sequence[str]) -> npt.NDArray[np.bool_]:
    there = np.zeros(len(node), dtype=bool)
    for name in streams:
        there |= ~np.isnan(_signal(node, name))
    return there


def _signal(node: Node, name: str) -> Floats:
    if name == SAMPLER_LOGPROB:
        return node.logprobs.astype(np.float64)
    if name in node.signals:
        return node.signals[name].values.astype(np.float64)
    return np.full(len(node), np.nan)


def _assemble(
    trees: list[Tree],
    places: list[tuple[Tree, int, npt.NDArray[np.int64]]],
    incidence: Incidence,
    columns: dict[str, list[Floats]],
    terms: Sequence[Term],
) -> StepTokens:
    """Drop tokens outside every span, place the rest in their trees, read the sampling distribution, check."""
    kept = np.zeros(incidence.tokens, dtype=bool)
    kept[incidence.token] = True
    renumbered = np.where(kept, np.cumsum(kept) - 1, -1)
    signals = {name: _joined(parts)[kept] for name, parts in columns.items()}
    total = int(kept.sum())
    temperature, support, greedy = np.ones(total), {}, np.zeros(total, dtype=bool)
    first = 0
    for tree, node_index, offsets in places:
        flat = renumbered[first : first + len(offsets)]
        first += len(offsets)
        offsets, flat = offsets[flat >= 0], flat[flat >= 0]
        tree.trained[node_index] = (offsets, flat)
        node = tree.trace.nodes[node_index]
        value = float(node.meta.get("temperature", 1.0))
        sampled = ~np.isnan(node.logprobs[offsets])
        greedy[flat[sampled]] = value == 0.0
        temperature[flat[sampled]] = value or 1.0
        if node.support is not None:
            support.update({int(f): node.support.at(int(o)) for o, f in zip(offsets, flat, strict=True)
                            if len(node.support.at(int(o)))})  # fmt: skip
    step = StepTokens(trees, incidence.select(kept), signals, temperature, support, greedy)
    _check(step, terms)
    return step


def _joined(parts: list[Floats]) -> Floats:
    """Parts [n] as one column, or [n, k] where a signal has a further axis; NaN in those that lack it."""
    wide = [part.shape[1] for part in parts if part.ndim == 2]
    if not wide:
        return np.concatenate([*parts, np.zeros(0)])
    same = [part if part.ndim == 2 else np.full((len(part), wide[0]), np.nan) for part in parts]
    return np.concatenate(same)


def _check(step: StepTokens, terms: Sequence[Term]) -> None:
    for term in terms:
        mine = ~np.isnan(step.signals[term.stream])
        for name in term.reads:
            absent = np.isnan(step.signals[name])
            missing = mine & (absent.any(axis=1) if absent.ndim == 2 else absent)
            if missing.any():
                raise InputError(
                    f"term {term.name!r} needs the signal {name!r} on every token that carries {term.stream!r}; "
                    f"{int(missing.sum())} of {int(mine.sum())} lack it: add the annotator that writes it"
                )
        if "policy_logprob" in term.needs and step.greedy[mine].any():
            raise PromiseError(
                f"term {term.name!r} takes a ratio of probabilities, but its tokens were chosen greedily "
                "(temperature 0), which has none: sample with a temperature above 0"
            )
