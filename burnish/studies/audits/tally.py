"""Stored traces as flat tables: one row a member, and counts of tokens by author and role. Read once for all audits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from burnish.signals.annotators import flattened, present
from burnish.studies.audits.reading import RunFiles
from burnish.traces import ROLES, AuthorKind, Group, Role, SignalKind, Span, Trace

OLD = "old_logprob"
"""The signal that `options.old: learner` writes: the learner's own log-probability of what was sampled."""


@dataclass(frozen=True)
class Member:
    """One member of one group. Tokens are those that a model sampled on its path."""

    step: int
    group: int
    """Numbered over the whole run."""
    task: str
    reward: float
    """NaN where missing."""
    counts: bool
    masked: bool
    missing: str
    """The status that took the reward away, "" where there is one."""
    anew: bool
    """Whether another was sampled in its place."""
    truncated: bool
    length: int
    weighted: int
    """Tokens that carry a weight, also one of 0."""
    moved: int
    """Tokens whose weight is not 0."""
    answer: bytes
    """The sampled tokens of its answer (role answer where there are any), as bytes to compare."""
    components: dict[str, float]
    hack: str
    """The shortcut that its verdict's evidence names, "" where none."""


@dataclass(frozen=True)
class Unit:
    """One group: how many members it has, how many of them count, and the rewards of those."""

    step: int
    group: int
    members: int
    counted: int
    present: float
    rewards: tuple[float, ...]


@dataclass
class Tally:
    """Everything that the audits of the record read of the stored traces."""

    members: list[Member] = field(default_factory=list)
    units: list[Unit] = field(default_factory=list)
    tokens: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)
    """(author kind, author name, role, use) -> tokens. Use is "": no weight, else the kind of weight and whether it
    is "zero", such as `policy` or `policy zero`."""
    foreign: int = 0
    """Tokens with a policy-gradient weight that no model sampled, or another than the policy."""
    versions: list[tuple[int, int, int]] = field(default_factory=list)
    """(step, weight version, sampled tokens)."""
    gaps: list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float64]]] = field(default_factory=list)
    """(trace, positions among a path's sampled tokens, sampler minus learner)."""
    steps: list[int] = field(default_factory=list)

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """A number of each member."""
        return np.array([getattr(member, name) for member in self.members], dtype=np.float64)

    @property
    def groups(self) -> npt.NDArray[np.int64]:
        """The group of each member."""
        return np.array([member.group for member in self.members], dtype=np.int64)

    def at(self, steps: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which members are of these steps."""
        chosen = set(steps)
        return np.array([member.step in chosen for member in self.members], dtype=bool)


def tally(run: RunFiles, policy: str = "policy") -> Tally:
    """Read the stored traces of a run. `policy` names the model that is trained."""
    found = Tally()
    for step, groups in run.groups():
        found.steps.append(step)
        seen: set[int] = set()
        for group in groups:
            for trace in group.traces:
                if id(trace) not in seen:
                    seen.add(id(trace))
                    _tokens(found, step, trace, policy)
        for group in groups:
            # the segments of an attempt are nested groups, judged with its end: they are no members of their own
            for unit in [group] if group.members else list(flattened(group.children)):
                _group(found, step, unit)
    return found


def _group(found: Tally, step: int, group: Group) -> None:
    if not group.members:
        return
    number = len(found.units)
    rewards = group.rewards[~np.isnan(group.rewards)]
    found.units.append(
        Unit(step, number, len(group.members), len(rewards), present(group), tuple(float(r) for r in rewards))
    )
    for span in group.members:
        if span.verdict is not None:
            found.members.append(_member(step, number, group, span))


def _member(step: int, number: int, group: Group, span: Span) -> Member:
    trace, verdict = span.trace, span.verdict
    assert verdict is not None
    path = trace.path(span.leaf)
    sampled = [~np.isnan(trace.nodes[n].logprobs) for n in path]
    weight = [_weights(trace, n)[0] for n in path]
    answer = np.concatenate([_answer(trace, n, own) for n, own in zip(path, sampled, strict=True)])
    if not len(answer):
        answer = np.concatenate([trace.nodes[n].tokens[own] for n, own in zip(path, sampled, strict=True)])
    return Member(
        step=step, group=number, task=str(trace.meta.get("task", group.key)), reward=span.reward, counts=span.counts,
        masked=span.masked, missing="" if verdict.reward is not None else verdict.status.value,
        anew=bool(verdict.evidence.get("sampled_anew")),
        truncated=trace.nodes[span.leaf].meta.get("finish", "stop") != "stop",
        length=int(sum(own.sum() for own in sampled)),
        weighted=int(sum((~np.isnan(w) & own).sum() for w, own in zip(weight, sampled, strict=True))),
        moved=int(sum((np.nan_to_num(w) != 0)[own].sum() for w, own in zip(weight, sampled, strict=True))),
        answer=answer.astype(np.int32).tobytes(), components=dict(verdict.components),
        hack=str(verdict.evidence.get("hack", "")),
    )  # fmt: skip


_ANSWER = ROLES.index(Role.ANSWER)


def _answer(trace: Trace, node: int, own: npt.NDArray[np.bool_]) -> npt.NDArray[np.int32]:
    return trace.nodes[node].tokens[own & (trace.nodes[node].roles == _ANSWER)]


def _weights(trace: Trace, node: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """The weight of each token of a node by whatever loss, NaN where it has none; and whether a policy gradient's."""
    size = len(trace.nodes[node])
    weight, policy = np.full(size, np.nan), np.zeros(size, dtype=bool)
    for signal in trace.nodes[node].signals.values():
        if signal.kind is SignalKind.STATISTIC:
            continue
        values = signal.values.astype(np.float64).reshape(size, -1)
        there = ~np.isnan(values).all(axis=1)
        size_of = np.nansum(np.abs(values), axis=1)
        weight[there] = np.nan_to_num(weight[there]) + size_of[there]
        policy |= there & (signal.kind is SignalKind.POLICY)
    return weight, policy


def _tokens(found: Tally, step: int, trace: Trace, policy: str) -> None:
    """Count the tokens of a trace, each once, and take its gaps by position."""
    for index, node in enumerate(trace.nodes):
        weight, is_policy = _weights(trace, index)
        for author_index in np.unique(node.authors):
            author, here = trace.authors[author_index], node.authors == author_index
            for role in np.unique(node.roles[here]):
                mine = here & (node.roles == role)
                _count(found, (author.kind.value, author.name, ROLES[role].value), weight[mine], is_policy[mine])
            if author.kind is AuthorKind.MODEL:
                found.versions.append((step, author.version, int(here.sum())))
            if author.kind is not AuthorKind.MODEL or author.name != policy:
                found.foreign += int((is_policy & here).sum())
    positions, gaps = gaps_of(trace, OLD)
    if len(gaps):
        found.gaps.append((len(found.gaps), positions, gaps))


def gaps_of(trace: Trace, signal: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Of each token that has the signal: how many were sampled before it on its path, and its sampling
    log-probability minus the signal."""
    depth: dict[int, int] = {-1: 0}
    positions, gaps = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
    for index, node in enumerate(trace.nodes):
        sampled = ~np.isnan(node.logprobs)
        start = depth[node.parent]
        depth[index] = start + int(sampled.sum())
        if signal in node.signals:
            there = sampled & ~np.isnan(node.signals[signal].values)
            positions.append((start + np.cumsum(sampled) - 1)[there])
            gaps.append((node.logprobs - node.signals[signal].values)[there].astype(np.float64))
    return np.concatenate(positions), np.concatenate(gaps)


def _count(
    found: Tally, who: tuple[str, str, str], weight: npt.NDArray[np.float64], policy: npt.NDArray[np.bool_]
) -> None:
    there = ~np.isnan(weight)
    zero = there & (weight == 0)
    for use, mine in (
        ("", ~there), ("policy", policy & ~zero), ("policy zero", policy & zero),
        ("weight", there & ~policy & ~zero), ("weight zero", there & ~policy & zero),
    ):  # fmt: skip
        if mine.any():
            found.tokens[(*who, use)] += int(mine.sum())
