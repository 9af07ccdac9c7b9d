"""Group advantages as pure functions of rewards. A missing reward (NaN) leaves the statistics and gets no advantage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.signals.spec import AdvantageEstimator

Array = npt.NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation before dividing."""


def group_advantages(
    rewards: Sequence[Array], estimator: AdvantageEstimator = "mean", lengths: Sequence[Array] | None = None
) -> list[Array]:
    """Advantages of each group's members, [G] per group, NaN where the reward is.

    `rewards` holds one array [G] per group and `lengths` the members' sampled tokens, which `opo` needs. A group with
    fewer than two rewards has nothing to compare: its advantages are 0, and so are those of `batch_std` and
    `reinforce_pp_baseline` for a batch without spread. Sources are listed in docs/methods/grpo.md.
    """
    groups = [np.asarray(r, dtype=np.float64) for r in rewards]
    counted = [g[~np.isnan(g)] for g in groups]
    if estimator == "opo":
        if lengths is None:
            raise ValueError("the opo baseline needs the members' lengths")
        return [_opo(g, np.asarray(t, dtype=np.float64)) for g, t in zip(groups, lengths, strict=True)]
    centred = [
        g - c.mean() if len(c) > 1 else np.where(np.isnan(g), np.nan, 0.0) for g, c in zip(groups, counted, strict=True)
    ]
    if estimator == "mean":
        return centred
    if estimator in ("batch_std", "reinforce_pp_baseline"):
        pool = np.concatenate(
            counted if estimator == "batch_std" else [a[~np.isnan(a)] for a in centred] or [np.zeros(0)]
        )
        spread = pool.std(ddof=1) if len(pool) > 1 else 0.0
        shift = pool.mean() if estimator == "reinforce_pp_baseline" and len(pool) else 0.0
        return [(a - shift) / (spread + EPSILON) if spread > 0 else a * 0.0 for a in centred]
    return [_one(a, c, estimator) for a, c in zip(centred, counted, strict=True)]


def _one(centred: Array, counted: Array, estimator: AdvantageEstimator) -> Array:
    if len(counted) < 2:
        return centred
    if estimator == "grpo":
        return centred / (counted.std(ddof=1) + EPSILON)
    if estimator == "rloo":
        return centred * len(counted) / (len(counted) - 1)
    if estimator == "maxrl":
        mean = counted.mean()
        return centred / mean if mean > 0 else centred * 0.0
    if estimator == "pass_at_k":
        result = centred * 0.0
        second, best = np.sort(counted)[-2:]
        result[int(np.nanargmax(centred))] = best - second
        return result
    raise ValueError(f"unknown advantage estimator {estimator!r}")


def _opo(rewards: Array, lengths: Array) -> Array:
    there = ~np.isnan(rewards)
    total = lengths[there].sum()
    if there.sum() < 2 or total == 0:
        return np.where(there, 0.0, np.nan)
    return rewards - (lengths[there] * rewards[there]).sum() / total
