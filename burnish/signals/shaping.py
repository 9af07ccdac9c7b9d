"""Length shaping as pure functions: what is added to the rewards of a group for how long its answers are.

Each takes rewards [G] (NaN: missing) and lengths [G] in sampled tokens and returns what is to be added, [G], 0 where a
reward is missing. They are for the actor: a critic learns to predict what was earned (signals/rewards.py).
docs/methods/shaping.md has formulas and sources.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def soft_overlong(rewards: Array, lengths: Array, longest: float, buffer: float) -> Array:
    """0 up to longest - buffer, then falling to -1 at longest, and -1 beyond (DAPO, 2503.14476)."""
    return _there(rewards, -np.clip((lengths - (longest - buffer)) / buffer, 0.0, 1.0))


def relative(rewards: Array, lengths: Array, right: float) -> Array:
    """k1.5's length reward (2501.12599): from 0.5 for the group's shortest answer to -0.5 for its longest, and for a
    wrong answer never above 0. 0 where all are equally long."""
    there = ~np.isnan(rewards)
    if not there.any() or np.ptp(lengths[there]) == 0:
        return np.zeros(len(rewards))
    spread = 0.5 - (lengths - lengths[there].min()) / np.ptp(lengths[there])
    return _there(rewards, np.where(rewards >= right, spread, np.minimum(0.0, spread)))


def among_right(rewards: Array, lengths: Array, right: float) -> Array:
    """Ring 2.6's (2606.15079): the same, between the shortest and the longest of the group's right answers.

    A wrong answer outside that range has the value of its end. 0 where no answer is right.
    """
    good = rewards >= right
    if not good.any():
        return np.zeros(len(rewards))
    low, high = lengths[good].min(), lengths[good].max()
    spread = 0.5 - np.clip((lengths - low) / (high - low + 1e-9), 0.0, 1.0)
    return _there(rewards, np.where(good, spread, np.minimum(0.0, spread)))


def toggled(rewards: Array, lengths: Array, right: float, budget: float, accuracy: float) -> Array:
    """K2.5's budget phase (2602.02276): a group that is right at least `accuracy` of the time loses the reward of its
    answers longer than `budget`. NaN for a budget that is not known yet: nothing is lost."""
    there = ~np.isnan(rewards)
    if not there.any() or np.isnan(budget) or np.mean(rewards[there] >= right) < accuracy:
        return np.zeros(len(rewards))
    return _there(rewards, np.where(lengths > budget, -rewards, 0.0))


def concave(rewards: Array, lengths: Array, rate: float, power: float) -> Array:
    """Composer 2's cost (2603.24477): -((1 + rate x)^(1 - power) - 1) / (rate (1 - power)) of x tokens.

    Its slope is -1 at first and falls: a token more costs a short answer more than a long one.
    """
    if power == 1.0:
        return _there(rewards, -np.log1p(rate * lengths) / rate)
    return _there(rewards, -((1.0 + rate * lengths) ** (1.0 - power) - 1.0) / (rate * (1.0 - power)))


def over_budget(rewards: Array, lengths: Array, budget: float) -> Array:
    """K3's effort level (2607.24653): an answer longer than `budget` is worth -1, whatever it earned."""
    if np.isnan(budget):
        return np.zeros(len(rewards))
    return _there(rewards, np.where(lengths > budget, -1.0 - rewards, 0.0))


def right_length(rewards: Array, lengths: Array, right: float, percentile: float) -> float:
    """A percentile of the lengths of right answers; NaN where there are none."""
    good = rewards >= right
    return float(np.percentile(lengths[good], percentile)) if good.any() else float("nan")


def _there(rewards: Array, values: Array) -> Array:
    return np.where(np.isnan(rewards), 0.0, values)
