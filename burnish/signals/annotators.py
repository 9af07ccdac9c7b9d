"""Annotators: from declared specs to functions that write signals on the nodes of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatch

import numpy as np

from burnish.errors import InputError
from burnish.signals.advantages import group_advantages
from burnish.signals.credit import sampled_tokens, write_credits
from burnish.signals.spec import AnnotatorSpec, DemonstrationWeightSpec, GroupAdvantageSpec, MaskTruncatedSpec
from burnish.traces import AuthorKind, Group, SignalKind

Annotator = Callable[[Sequence[Group]], None]
"""Writes signals on the groups it is given; whatever it wrote there before is replaced."""


@singledispatch
def build(spec: AnnotatorSpec) -> Annotator:
    """The annotator that a spec declares. Raises InputError for a spec nobody registered."""
    raise InputError(f"no annotator is registered for {type(spec).__name__}")


def flattened(groups: Sequence[Group]) -> Iterator[Group]:
    """Every group and the groups nested in it: each is a unit of credit of its own."""
    for group in groups:
        yield group
        yield from flattened(group.children)


@build.register
def _group_advantage(spec: GroupAdvantageSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        units = [g for g in flattened(groups) if g.members]
        lengths = [np.array([sampled_tokens(m, spec.learner) for m in g.members], dtype=float) for g in units]
        advantages = group_advantages([g.rewards for g in units], spec.estimator, lengths)
        if spec.drop_zero_variance:
            advantages = [np.full(len(a), np.nan) if _flat(g) else a for g, a in zip(units, advantages, strict=True)]
        advantages = [
            np.full(len(a), np.nan) if present(g) < spec.least_present else a
            for g, a in zip(units, advantages, strict=True)
        ]
        write_credits(units, advantages, spec.stream, spec.learner)

    return annotate


def present(group: Group) -> float:
    """The share of a group's members that have a reward; those that were sampled anew are not counted."""
    counted = [m for m in group.members if m.verdict is None or not m.verdict.evidence.get("sampled_anew")]
    return float(np.mean([not np.isnan(m.reward) for m in counted])) if counted else 0.0


def _flat(group: Group) -> bool:
    rewards = group.rewards[~np.isnan(group.rewards)]
    return len(rewards) == 0 or bool(np.ptp(rewards) == 0)


@build.register
def _demonstration_weight(spec: DemonstrationWeightSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        for group in groups:
            for trace in group.traces:
                trace.clear(spec.stream)
                shown = np.array([a.kind is AuthorKind.DEMONSTRATION for a in trace.authors], dtype=bool)
                for index, node in enumerate(trace.nodes):
                    if len(node) and shown[node.authors].any():
                        weights = np.where(shown[node.authors], 1.0, np.nan)
                        trace.write(index, spec.stream, weights, SignalKind.WEIGHT)

    return annotate


@build.register
def _mask_truncated(spec: MaskTruncatedSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        for group in flattened(groups):
            for member in group.members:
                if member.trace.nodes[member.leaf].meta.get("finish") in ("length", "context"):
                    member.masked = True

    return annotate
