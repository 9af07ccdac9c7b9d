"""From credit of members (spans) to weights of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from burnish.traces import Group, Node, SignalKind, Span, Trace
from burnish.traces.signal_names import SAMPLER_LOGPROB

Floats = npt.NDArray[np.float64]


def inside(span: Span) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """The nodes on a span's path with the tokens of each that lie in the span, bool [T]."""
    start = 0
    for node in span.trace.path(span.leaf):
        places = np.arange(start, start + len(span.trace.nodes[node]))
        yield node, (places >= span.start) & (places < (span.stop or 0))
        start += len(places)


def sampled_tokens(span: Span, model: str) -> int:
    """Number of tokens in a span that the named model sampled."""
    return int(sum((span.trace.sampled_by(node, model) & here).sum() for node, here in inside(span)))


def sampled_values(span: Span, model: str, signal: str) -> Floats:
    """A signal on the tokens in a span that the named model sampled, in their order; NaN where it is absent."""
    parts = [np.zeros(0)]
    for node, here in inside(span):
        own = here & span.trace.sampled_by(node, model)
        parts.append(read(span.trace.nodes[node], signal)[own])
    return np.concatenate(parts)


def read(node: Node, signal: str) -> Floats:
    """A signal of a node, [T]; NaN where it is absent. `sampler_logprob` stands with the tokens themselves."""
    if signal == SAMPLER_LOGPROB:
        return node.logprobs.astype(np.float64)
    if signal in node.signals:
        return node.signals[signal].values.astype(np.float64)
    return np.full(len(node), np.nan)


def write_credits(
    groups: Sequence[Group],
    credits: Sequence[Floats] | Sequence[Sequence[Floats]],
    stream: str,
    learner: str,
    kind: SignalKind = SignalKind.POLICY,
) -> None:
    """Give each member's credit to the tokens in its span that its learner sampled.

    `credits` holds per group an array [members], or per member an array over those tokens.

    A token that several members pass through, of one group or of several, gets the mean of their credits: the combine
    rule `mean over leaves`. Tokens without credit, and members whose credit is NaN, are left out. What the stream
    held before on these traces is removed.
    """
    sums: dict[tuple[int, int], Floats] = {}
    counts: dict[tuple[int, int], Floats] = {}
    traces: dict[int, Trace] = {}
    for group, values in zip(groups, credits, strict=True):
        for member, value in zip(group.members, values, strict=True):
            traces.setdefault(id(member.trace), member.trace)
            first = 0
            for node, here in inside(member):
                own = np.flatnonzero(here & member.trace.sampled_by(node, learner))
                part = np.full(len(own), value) if np.ndim(value) == 0 else value[first : first + len(own)]
                first += len(own)
                own, part = own[~np.isnan(part)], part[~np.isnan(part)]
                key = (id(member.trace), node)
                sums.setdefault(key, np.zeros(len(here)))[own] += part
                counts.setdefault(key, np.zeros(len(here)))[own] += 1
    for trace in traces.values():
        trace.clear(stream)
    for (trace_id, node), count in counts.items():
        if count.any():
            credit = np.where(count > 0, sums[trace_id, node] / np.maximum(count, 1), np.nan)
            traces[trace_id].write(node, stream, credit, kind, learner=learner)
