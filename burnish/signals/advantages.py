"""Group advantages as pure functions of rewards. A missing reward (NaN) leaves the statistics and gets no advantage."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.signals.spec import ESTIMATORS, AdvantageEstimator, Centre, Scale

Array = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation before dividing."""


def group_advantages(
    rewards: Sequence[Array],
    estimator: AdvantageEstimator = "mean",
    lengths: Sequence[Array] | None = None,
    *,
    centre: Centre = "mean",
    scale: Scale = "none",
    baselines: Sequence[float] | None = None,
    k: int | None = None,
) -> list[Array]:
    """Advantages of each group's members, [G] per group, NaN where the reward is.

    `rewards` holds one array [G] per group, `lengths` the members' sampled tokens, which a length-weighted centre
    needs, and `baselines` one number per group, which a greedy or moving centre needs: a group whose baseline is NaN
    has none. `centre` and `scale` are for estimator `group`. A group with fewer than two rewards has nothing to
    compare: with a baseline made of the group its advantages are 0, and so are those of a batch without spread where
    that is divided by. Raises InputError for a k above the size of a group. Sources: docs/methods/baselines.md.
    """
    groups = [np.asarray(r, dtype=np.float64) for r in rewards]
    if estimator == "pass_at_k":
        return [best_alone(g) for g in groups]
    if estimator == "max_at_k":
        if k is None:
            raise InputError("max_at_k needs k: the best of how many samples")
        return [max_at_k(g, k) for g in groups]
    if estimator != "group":
        if estimator not in ESTIMATORS:
            raise InputError(f"{estimator!r} is no estimator of rewards alone")
        centre, scale = ESTIMATORS[estimator]
    centred = [_centred(g, centre, _at(lengths, i), _at(baselines, i)) for i, g in enumerate(groups)]
    found = _scaled(centred, groups, scale)
    return whitened(found) if estimator == "reinforce_pp_baseline" else found


def _at(values: Sequence[Array] | Sequence[float] | None, place: int) -> Array | float | None:
    return None if values is None else values[place]


def _centred(rewards: Array, centre: Centre, lengths: Array | float | None, baseline: Array | float | None) -> Array:
    there = ~np.isnan(rewards)
    count = int(there.sum())
    if centre in ("greedy", "moving_average"):
        if baseline is None:
            raise InputError(f"centre {centre} needs a baseline for each group")
        return rewards - baseline
    if count < 2:
        return np.where(there, 0.0, np.nan)
    if centre == "length_weighted":
        if lengths is None:
            raise InputError("a length-weighted baseline needs the members' lengths")
        weight = np.where(there, np.asarray(lengths, dtype=np.float64), 0.0)
        if weight.sum() == 0:
            return np.where(there, 0.0, np.nan)
        return rewards - np.nansum(weight * rewards) / weight.sum()
    centred = rewards - rewards[there].mean()
    return centred * count / (count - 1) if centre == "leave_one_out" else centred


def _scaled(centred: list[Array], groups: list[Array], scale: Scale) -> list[Array]:
    if scale == "none":
        return centred
    counted = [g[~np.isnan(g)] for g in groups]
    if scale == "batch_std":
        pool = np.concatenate([*counted, np.zeros(0)])
        spread = pool.std(ddof=1) if len(pool) > 1 else 0.0
        return [a / (spread + EPSILON) if spread > 0 else a * 0.0 for a in centred]
    found = []
    for a, c in zip(centred, counted, strict=True):
        if scale == "std":
            found.append(a / (c.std(ddof=1) + EPSILON) if len(c) > 1 and np.ptp(c) > 0 else a * 0.0)
        else:
            found.append(a / c.mean() if len(c) and c.mean() > 0 else a * 0.0)
    return found


def whitened(values: Sequence[Array]) -> list[Array]:
    """Values with the mean over all of them taken away, divided by their standard deviation; 0 without spread."""
    pool = np.concatenate([*(v[~np.isnan(v)] for v in values), np.zeros(0)])
    spread = pool.std(ddof=1) if len(pool) > 1 and np.ptp(pool) > 0 else 0.0
    return [(v - pool.mean()) / (spread + EPSILON) if spread > 0 else v * 0.0 for v in values]


def best_alone(rewards: Array) -> Array:
    """The best sample gets its lead over the second best, the others nothing (2503.19595)."""
    result = np.where(np.isnan(rewards), np.nan, 0.0)
    counted = np.sort(rewards[~np.isnan(rewards)])
    if len(counted) > 1:
        result[int(np.nanargmax(rewards))] = counted[-1] - counted[-2]
    return result


def max_at_k(rewards: Array, k: int) -> Array:
    """n / C(n, k) x the sum over the k-subsets with sample i of (their best - their best without i), [n].

    With it, mean_i A_i grad log pi(y_i) is an unbiased gradient of E[best of k samples] (Walder and Karkhanis 2025,
    arXiv 2505.15201, their leave-one-out-minus-one baseline); with rewards of 0 and 1 that is pass@k. A group that
    lost so many rewards that fewer than k are left has no advantages. Raises InputError when k is above the size of
    the group, or below 2.
    """
    if k < 2:
        raise InputError(f"k is {k}: the best of one sample is the sample; use another advantage")
    if k > len(rewards):
        raise InputError(f"k is {k}, but a group has {len(rewards)} samples: lower k, or raise samples_per_prompt")
    result = np.where(np.isnan(rewards), np.nan, 0.0)
    there = np.flatnonzero(~np.isnan(rewards))
    n = len(there)
    if n < k:
        return result * np.nan
    order = there[np.argsort(rewards[there], kind="stable")]
    ranked = rewards[order]
    # a subset's best changes only where i is it: the runner-up is j < i, the other k - 2 are below j
    beside = np.array([comb(j, k - 2) for j in range(n)], dtype=np.float64)
    upto = np.concatenate([[0.0], np.cumsum(beside)])[:n]
    worth = np.concatenate([[0.0], np.cumsum(beside * ranked)])[:n]
    result[order] = (ranked * upto - worth) * n / comb(n, k)
    return result


def multi_reward(components: Sequence[dict[str, Array]]) -> list[Array]:
    """Each component of each group centred and divided by its standard deviation, summed, whitened over the batch.

    `components` holds for each group its components by name, [G] each. A member without a component has NaN there
    and gets nothing from it; one without any has no advantage. GDPO, arXiv 2601.05242.
    """
    sums = []
    for group in components:
        parts = list(group.values())
        missing = np.all([np.isnan(p) for p in parts], axis=0)
        scaled = group_advantages(parts, "grpo")
        sums.append(np.where(missing, np.nan, np.nansum(scaled, axis=0)))
    return whitened(sums)
