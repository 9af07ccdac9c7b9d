"""Which interval a number of an evaluation gets: by what it is a mean of, and of how many problems. numpy only.

docs/evaluation.md has how often each covers the truth. Sources: Wilson 1927; for several answers to a problem Wilson's
formula with the number of independent answers that they are worth (Korn and Graubard 1998) and a t quantile; Hesterberg
2015 (expanded percentiles); Bonett and Price 2012 (paired shares).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from burnish.studies.statistics import (
    Interval,
    Values,
    bootstrap_interval,
    cluster_bootstrap,
    cluster_error,
    cluster_sums,
    score_interval,
    t_interval,
    wilson_interval,
)
from burnish.studies.student import t_quantile

FEW = 20
"""Fewer problems than so many are too few to resample."""
RARE = 10
"""Fewer problems than so many that differ from the others say too little of how much problems differ."""


def mean_interval(
    values: Values, problems: Sequence[Hashable], *, confidence: float = 0.95, seed: int = 0
) -> tuple[Interval | None, str]:
    """The interval of a mean of values that belong to problems, and its name.

    Right and wrong, one answer to a problem: "wilson". Other values within [0, 1]: "cluster wilson". Other values: "t"
    below 20 problems, "cluster bootstrap" from there on. Of a single problem nothing is known but what bounds a share:
    "bounds", and (None, "none") otherwise. Raises ValueError where a value is missing.
    """
    array = np.asarray(values, dtype=np.float64)
    count, bounded = len(set(problems)), bool(len(array) and array.min() >= 0 and array.max() <= 1)
    if bounded and count == len(array) and bool(np.isin(array, (0.0, 1.0)).all()):
        return wilson_interval(round(array.sum()), len(array), confidence=confidence), "wilson"
    if count == 1:
        return (Interval(float(array.mean()), 0.0, 1.0, confidence), "bounds") if bounded else (None, "none")
    if bounded:
        return cluster_wilson(array, problems, confidence=confidence), "cluster wilson"
    if count < FEW:
        return t_interval(array, problems, confidence=confidence), "t"
    return cluster_bootstrap(array, problems, expanded=True, confidence=confidence, seed=seed), "cluster bootstrap"


def cluster_wilson(values: Values, problems: Sequence[Hashable], *, confidence: float = 0.95) -> Interval:
    """Wilson's interval of a share with several answers to a problem, or of other means of values within [0, 1].

    In place of the number of answers stands how many independent ones would vary as much, p (1 - p) / error^2, and at
    least the number of problems; z is a t quantile. Where fewer than 10 problems differ from all the others, which have
    nothing right (or nothing wrong), half a problem of each kind is added before the error is taken. Raises ValueError
    for fewer than two problems and for values outside of [0, 1].
    """
    array = np.asarray(values, dtype=np.float64)
    if not len(array) or array.min() < 0 or array.max() > 1:
        raise ValueError("shares lie between 0 and 1")
    sums, sizes = cluster_sums(array, problems)
    count, share = len(sums), float(array.mean())
    z = t_quantile((1 + confidence) / 2, count - 1)
    if min((sums > 0).sum(), (sums < sizes).sum()) < RARE:
        means = sums / sizes
        centre = (means.sum() + 0.5) / (count + 1)
        squares = ((means - centre) ** 2).sum() + 0.5 * (centre**2 + (1 - centre) ** 2)
        worth = centre * (1 - centre) / (squares / count / count)
    else:
        error = cluster_error(array, problems)
        worth = share * (1 - share) / error**2 if error > 0 else 0.0
    return score_interval(share, max(worth, count), z, confidence)


def paired_interval(
    before: Values, after: Values, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[Interval, str]:
    """The interval of mean(after) - mean(before) over the same problems, shape [problems] each, and its name.

    Right and wrong of which fewer than 10 changed: "paired shares" (Bonett and Price). Else "paired t" below 20
    problems, and "paired bootstrap" from there on; of one problem what bounds a share, "bounds". Raises ValueError when
    the two differ in length or miss a value, and for one problem whose values are no shares.
    """
    one, two = np.asarray(before, dtype=np.float64), np.asarray(after, dtype=np.float64)
    if one.shape != two.shape:
        raise ValueError(f"paired values need the same items: {len(one)} before, {len(two)} after")
    difference = two - one
    both = np.concatenate([one, two])
    if bool(np.isin(both, (0.0, 1.0)).all()) and (difference != 0).sum() < RARE:
        return _paired_shares(difference, confidence), "paired shares"
    if len(one) == 1 and both.min() >= 0 and both.max() <= 1:
        return Interval(float(difference[0]), -1.0, 1.0, confidence), "bounds"
    if len(one) < FEW:
        return t_interval(difference, confidence=confidence), "paired t"
    found = bootstrap_interval(difference, method="expanded", confidence=confidence, resamples=resamples, seed=seed)
    return found, "paired bootstrap"


def _paired_shares(difference: npt.NDArray[np.float64], confidence: float) -> Interval:
    """Bonett and Price 2012, adjusted Wald: one more problem that improved and one that worsened, among two more."""
    count = len(difference) + 2
    up, down = ((difference > 0).sum() + 1) / count, ((difference < 0).sum() + 1) / count
    half = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt((up + down - (up - down) ** 2) / count)
    low, high = max(-1.0, up - down - half), min(1.0, up - down + half)
    return Interval(float(difference.mean()), float(low), float(high), confidence)
