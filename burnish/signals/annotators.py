"""Annotators: from declared specs to functions that write signals on the nodes of groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.signals.advantages import group_advantages, multi_reward, whitened
from burnish.signals.credit import sampled_tokens, write_credits
from burnish.signals.lengths import Shaping
from burnish.signals.mismatch import correct
from burnish.signals.rewards import actor_reward, by_state, flattened, greedy_reward, members_of, token_kl
from burnish.signals.spec import (
    AnnotatorSpec,
    CombineSpec,
    CorrectionSpec,
    DemonstrationWeightSpec,
    GaeSpec,
    GroupAdvantageSpec,
    MaskTruncatedSpec,
    SegmentSpec,
    ShapingSpec,
)
from burnish.signals.values import combine, estimate
from burnish.traces import AuthorKind, Group, SignalKind

__all__ = ["Annotator", "build", "flattened", "present"]

Annotator = Callable[[Sequence[Group]], None]
"""Writes signals on the groups it is given; whatever it wrote there before is replaced."""

Floats = npt.NDArray[np.float64]


@singledispatch
def build(spec: AnnotatorSpec) -> Annotator:
    """The annotator that a spec declares. Raises InputError for a spec nobody registered."""
    raise InputError(f"no annotator is registered for {type(spec).__name__}")


@build.register
def _group_advantage(spec: GroupAdvantageSpec) -> Annotator:
    if spec.baseline == "moving_average":
        return MovingAverage(spec)

    def annotate(groups: Sequence[Group]) -> None:
        units = _units(groups, spec)
        baselines = [greedy_reward(g) for g in units] if spec.baseline == "greedy" else None
        _credit(spec, units, _rewards(spec, units), baselines)

    return annotate


def _units(groups: Sequence[Group], spec: GroupAdvantageSpec) -> list[Group]:
    found = by_state(groups) if spec.by == "state" else [g for g in flattened(groups) if g.members]
    return [g for g in found if members_of(g)]


def _rewards(spec: GroupAdvantageSpec, units: Sequence[Group]) -> list[Floats]:
    """The actor's rewards, [members] per group; with a KL in the reward, less that of the whole sample."""
    taken = spec.kl and spec.estimator != "reinforce_pp"  # that one takes it token by token
    return [
        np.array(
            [
                actor_reward(m) - (spec.kl * token_kl(m, spec.learner, spec.reference).sum() if taken else 0.0)
                for m in members_of(unit)
            ]
        )
        for unit in units
    ]


def _credit(
    spec: GroupAdvantageSpec, units: Sequence[Group], rewards: list[Floats], baselines: Sequence[float] | None
) -> None:
    """Advantages of rewards, written on the tokens; groups that are thin, or flat where so asked, are left out."""
    kept = [_kept(spec, unit, r) for unit, r in zip(units, rewards, strict=True)]
    credits: list[Floats] | list[list[Floats]]
    if spec.estimator == "reinforce_pp":
        credits = _returns(spec, units, rewards, kept)
    else:
        if spec.estimator == "multi_reward":
            found = multi_reward([_components(unit) for unit in units])
        else:
            lengths = [np.array([sampled_tokens(m, spec.learner) for m in members_of(g)], dtype=float) for g in units]
            found = group_advantages(
                rewards, spec.estimator, lengths, centre=spec.centre, scale=spec.scale, baselines=baselines, k=spec.k
            )
        credits = [a if keep else np.full(len(a), np.nan) for a, keep in zip(found, kept, strict=True)]
    trained = [Group(unit.key, members_of(unit)) for unit in units]
    write_credits(trained, credits, spec.stream, spec.learner)


def _kept(spec: GroupAdvantageSpec, unit: Group, rewards: Floats) -> bool:
    there = rewards[~np.isnan(rewards)]
    flat = len(there) == 0 or bool(np.ptp(there) == 0)
    return present(unit) >= spec.least_present and not (spec.drop_zero_variance and flat)


def _returns(
    spec: GroupAdvantageSpec, units: Sequence[Group], rewards: list[Floats], kept: Sequence[bool]
) -> list[list[Floats]]:
    """REINFORCE++: on each token the reward less the KL from there on, whitened over the batch's tokens."""
    flat: list[Floats] = []
    for unit, own, keep in zip(units, rewards, kept, strict=True):
        for member, reward in zip(members_of(unit), own, strict=True):
            credit = np.full(sampled_tokens(member, spec.learner), reward if keep else np.nan)
            if spec.kl and not np.isnan(reward):
                to_come = np.cumsum(token_kl(member, spec.learner, spec.reference)[::-1])[::-1]
                credit = credit - spec.kl * to_come
            flat.append(credit)
    found = iter(whitened(flat))
    return [[next(found) for _ in members_of(unit)] for unit in units]


def _components(unit: Group) -> dict[str, Floats]:
    """The components of the verdicts by name, [members] each; NaN where a member lacks one or does not count."""
    members = members_of(unit)
    names = dict.fromkeys(n for m in members if m.counts and m.verdict for n in m.verdict.components)
    if not names:
        return {"reward": np.array([actor_reward(m) for m in members])}
    return {
        name: np.array([m.verdict.components.get(name, np.nan) if m.counts and m.verdict else np.nan for m in members])
        for name in names
    }


def present(group: Group) -> float:
    """The share of a group's members that have a reward; those that were sampled anew are not counted."""
    counted = [m for m in members_of(group) if m.verdict is None or not m.verdict.evidence.get("sampled_anew")]
    return float(np.mean([not np.isnan(m.reward) for m in counted])) if counted else 0.0


class MovingAverage:
    """Rewards less a moving average of those of their domain, which begins with the first step's mean.

    It remembers, so it is a part of a checkpoint.
    """

    def __init__(self, spec: GroupAdvantageSpec) -> None:
        self.spec = spec
        self.averages: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group]) -> None:
        units = _units(groups, self.spec)
        rewards = _rewards(self.spec, units)
        pools: dict[str, list[float]] = {}
        for unit, own in zip(units, rewards, strict=True):
            pools.setdefault(_domain(unit), []).extend(own[~np.isnan(own)].tolist())
        for domain, values in pools.items():
            if values:
                self.averages.setdefault(domain, float(np.mean(values)))
        _credit(self.spec, units, rewards, [self.averages.get(_domain(unit), float("nan")) for unit in units])
        for domain, values in pools.items():
            if values:
                old = self.averages[domain]
                self.averages[domain] = self.spec.decay * old + (1 - self.spec.decay) * float(np.mean(values))

    def state(self) -> dict[str, dict[str, float]]:
        """The averages by domain."""
        return {"averages": dict(self.averages)}

    def load(self, state: dict[str, dict[str, float]]) -> None:
        """Take up the state that `state` gave."""
        self.averages = dict(state["averages"])


def _domain(unit: Group) -> str:
    return str(unit.members[0].trace.meta.get("domain", ""))


@build.register
def _segment(spec: SegmentSpec) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        for group in groups:
            for trace in group.traces:
                trace.clear(spec.signal)
                before: dict[int, tuple[int, int]] = {-1: (0, 0)}
                for index, node in enumerate(trace.nodes):  # parents stand before their children
                    own = trace.sampled_by(index, spec.learner) if len(trace.authors) else np.zeros(0, dtype=bool)
                    turns, tokens = before[node.parent]
                    if not own.any():
                        before[index] = (turns, tokens)
                        continue
                    places = tokens + np.arange(int(own.sum()))
                    numbers = np.full(len(own), np.nan)
                    numbers[own] = turns if spec.tokens is None else places // spec.tokens
                    trace.write(index, spec.signal, numbers)
                    before[index] = (turns + 1, tokens + int(own.sum()))

    return annotate


@build.register
def _shaping(spec: ShapingSpec) -> Annotator:
    return Shaping(spec)


@build.register
def _gae(spec: GaeSpec) -> Annotator:
    return lambda groups: estimate(groups, spec)


@build.register
def _combine(spec: CombineSpec) -> Annotator:
    return lambda groups: combine(groups, spec)


@build.register
def _correction(spec: CorrectionSpec) -> Annotator:
    return lambda groups: correct(groups, spec)


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
            for member in members_of(group):
                if member.trace.nodes[member.leaf].meta.get("finish") in ("length", "context"):
                    member.masked = True

    return annotate
