"""Annotators of a critic's values: advantages by GAE with the targets of the critic, and sums of advantages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.signals.advantages import whitened
from burnish.signals.credit import read, sampled_tokens, sampled_values, write_credits
from burnish.signals.gae import adaptive_lambda, gae
from burnish.signals.rewards import actor_reward, critic_reward, flattened, members_of, token_kl
from burnish.signals.spec import CombineSpec, GaeSpec
from burnish.traces import Group, SignalKind, Span

Floats = npt.NDArray[np.float64]


def estimate(groups: Sequence[Group], spec: GaeSpec) -> None:
    """Write advantages and value targets on the tokens that the learner sampled.

    A member's reward stands on its last sampled token. Tokens that an environment wrote are bridged: the next one is
    the next that the learner sampled. A member without a reward has neither. Raises InputError where a value is
    missing.
    """
    units = [Group(g.key, members_of(g)) for g in flattened(groups) if members_of(g)]
    members = [m for unit in units for m in unit.members]
    lengths = np.array([sampled_tokens(m, spec.learner) for m in members], dtype=np.int64)
    if not lengths.sum():
        return
    shape = (len(members), int(lengths.max()))
    values, actor, critic = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for row, (member, length) in enumerate(zip(members, lengths, strict=True)):
        if length == 0:
            continue
        values[row, :length] = _values(member, spec)
        actor[row, length - 1], critic[row, length - 1] = actor_reward(member), critic_reward(member)
        if spec.kl:
            actor[row, :length] -= spec.kl * token_kl(member, spec.learner, spec.reference)
    lam = np.full(len(members), spec.lam) if spec.reach is None else adaptive_lambda(lengths, spec.reach)
    advantages = gae(actor, values, lengths, lam, spec.gamma)
    targets = gae(critic, values, lengths, spec.critic_lam, spec.gamma) + values
    flat = [row[:length] for row, length in zip(advantages, lengths, strict=True)]
    credits = whitened(flat) if spec.whiten else flat
    aims = [row[:length] for row, length in zip(targets, lengths, strict=True)]
    write_credits(units, _by_unit(units, credits), spec.stream, spec.learner)
    write_credits(units, _by_unit(units, aims), spec.target, spec.learner, SignalKind.WEIGHT)


def _values(member: Span, spec: GaeSpec) -> Floats:
    found = sampled_values(member, spec.learner, spec.value)
    if np.isnan(found).any():
        raise InputError(f"advantages by a critic need the signal {spec.value!r} on every sampled token: score first")
    return found


def _by_unit(units: Sequence[Group], flat: Sequence[Floats]) -> list[list[Floats]]:
    rows = iter(flat)
    return [[next(rows) for _ in unit.members] for unit in units]


def combine(groups: Sequence[Group], spec: CombineSpec) -> None:
    """Write the weighted sum of streams where at least one of them is present."""
    traces = {id(trace): trace for group in groups for trace in group.traces}
    for trace in traces.values():
        for index, node in enumerate(trace.nodes):
            parts = np.array([read(node, name) for name in spec.streams])
            there = ~np.isnan(parts).all(axis=0)
            node.signals.pop(spec.stream, None)
            if there.any():
                total = np.nansum(parts * np.array(spec.weights)[:, None], axis=0)
                kind = SignalKind.POLICY
                trace.write(index, spec.stream, np.where(there, total, np.nan), kind, learner=spec.learner)
