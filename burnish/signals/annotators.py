"""Annotators: from declared specs to functions that write signals on the nodes of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

import numpy as np

from burnish.errors import InputError
from burnish.signals.advantages import group_advantages
from burnish.signals.spec import AnnotatorSpec, DemonstrationWeightSpec, GroupAdvantageSpec, MaskTruncatedSpec
from burnish.traces import AuthorKind, Group, SignalKind, Span, Trace

Annotator = Callable[[Sequence[Group]], None]
"""Writes signals on the groups it is given."""


@singledispatch
def build(spec: AnnotatorSpec) -> Annotator:
    """The annotator that a spec declares. Raises InputError for a spec nobody registered."""
    raise InputError(f"no annotator is registered for {type(spec).__name__}")


@build.register
def _group_advantage(spec: GroupAdvantageSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        lengths = [np.array([sampled_tokens(m, spec.learner) for m in g.members], dtype=float) for g in groups]
        advantages = group_advantages([g.rewards for g in groups], spec.estimator, lengths)
        for group, values in zip(groups, advantages, strict=True):
            flat = np.ptp(group.rewards[~np.isnan(group.rewards)]) == 0 if not np.isnan(group.rewards).all() else True
            if spec.drop_zero_variance and flat:
                continue
            write_credit(group, values, spec.stream, spec.learner)

    return annotate


def sampled_tokens(span: Span, model: str) -> int:
    """Number of tokens on a span's path that the named model sampled."""
    return int(sum(span.trace.sampled_by(n, model).sum() for n in span.trace.path(span.leaf)))


def write_credit(group: Group, credit: np.ndarray, stream: str, learner: str) -> None:
    """Give each member's credit [members] to the tokens its learner sampled, NaN elsewhere and for missing credit.

    A token that several members pass through gets the mean of their credits (combine rule `mean over leaves`).
    """
    sums: dict[tuple[int, int], float] = {}
    counts: dict[tuple[int, int], int] = {}
    traces: dict[int, Trace] = {}
    for member, value in zip(group.members, credit, strict=True):
        if np.isnan(value):
            continue
        traces[id(member.trace)] = member.trace
        for node in member.trace.path(member.leaf):
            key = (id(member.trace), node)
            sums[key] = sums.get(key, 0.0) + float(value)
            counts[key] = counts.get(key, 0) + 1
    for (trace_id, node), total in sums.items():
        trace = traces[trace_id]
        own = trace.sampled_by(node, learner)
        if own.any():
            values = np.where(own, total / counts[trace_id, node], np.nan)
            trace.write(node, stream, values, SignalKind.POLICY, learner=learner)


@build.register
def _demonstration_weight(spec: DemonstrationWeightSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        for group in groups:
            for trace in group.traces:
                shown = np.array([a.kind is AuthorKind.DEMONSTRATION for a in trace.authors], dtype=bool)
                for index, node in enumerate(trace.nodes):
                    if len(node) and shown[node.authors].any():
                        weights = np.where(shown[node.authors], 1.0, np.nan)
                        trace.write(index, spec.stream, weights, SignalKind.WEIGHT)

    return annotate


@build.register
def _mask_truncated(spec: MaskTruncatedSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        for group in groups:
            for member in group.members:
                if member.trace.nodes[member.leaf].meta.get("finish") in ("length", "context"):
                    member.masked = True

    return annotate
