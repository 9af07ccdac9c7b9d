"""Intervals of ratios of sums over clusters: groups are resampled whole, since their members are not independent.

A percentile bootstrap over clusters (Efron and Tibshirani 1993); with fewer than `LEAST` clusters there is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_generator, stable_hash
from burnish.studies.statistics import Interval, wilson_interval

Floats = npt.NDArray[np.float64]

LEAST = 5
"""Fewest clusters that an interval is taken over."""

_STREAM = stable_hash("burnish.studies.audits.intervals")
_RESAMPLES = 2000


class Sums:
    """Numerators and denominators, summed by cluster."""

    def __init__(self, numerators: Floats, denominators: Floats, clusters: npt.NDArray[np.int64]) -> None:
        _, place = np.unique(np.asarray(clusters, dtype=np.int64), return_inverse=True)
        self.top = np.bincount(place, weights=np.asarray(numerators, dtype=np.float64))
        self.bottom = np.bincount(place, weights=np.asarray(denominators, dtype=np.float64))

    def __len__(self) -> int:
        return len(self.top)

    @property
    def ratio(self) -> float:
        """Sum of numerators over sum of denominators; NaN where that is 0."""
        return float(self.top.sum() / self.bottom.sum()) if self.bottom.sum() else math.nan

    def draws(self, seed: int, which: int = 0) -> Floats:
        """The ratio in resamples of the clusters, [resamples]."""
        generator = counter_generator(seed, _STREAM, which)
        index = generator.integers(0, len(self), size=(_RESAMPLES, len(self)))
        bottom = self.bottom[index].sum(-1)
        return np.divide(self.top[index].sum(-1), bottom, out=np.full(len(bottom), np.nan), where=bottom != 0)


def ratio(sums: Sums, *, seed: int = 0, share: bool = False) -> Interval:
    """A ratio of sums with its interval.

    `share`: the ratio lies between 0 and 1. Where every cluster then says 0, or every one 1, resampling finds no
    spread at all; the interval is Wilson's over the clusters, each counted as one observation.
    """
    estimate = sums.ratio
    if len(sums) < LEAST:
        return Interval(estimate, math.nan, math.nan)
    if share and estimate in (0.0, 1.0):
        return wilson_interval(round(estimate * len(sums)), len(sums))
    low, high = np.nanquantile(sums.draws(seed), [0.025, 0.975]) if sums.bottom.any() else (math.nan, math.nan)
    return Interval(estimate, float(low), float(high))


def change(first: Sums, last: Sums, *, seed: int = 0) -> Interval:
    """Ratio of the last minus ratio of the first; the two are resampled independently."""
    return _between(first, last, lambda a, b: b - a, seed)


def growth(first: Sums, last: Sums, *, seed: int = 0) -> Interval:
    """Ratio of the last over ratio of the first."""
    return _between(first, last, lambda a, b: b / np.where(a == 0, np.nan, a), seed)


def _between(first: Sums, last: Sums, how: object, seed: int) -> Interval:
    assert callable(how)
    estimate = float(how(np.float64(first.ratio), np.float64(last.ratio)))
    if min(len(first), len(last)) < LEAST:
        return Interval(estimate, math.nan, math.nan)
    values = how(first.draws(seed, 1), last.draws(seed, 2))
    if not np.isfinite(values).any():
        return Interval(estimate, math.nan, math.nan)
    low, high = np.nanquantile(values, [0.025, 0.975])
    return Interval(estimate, float(low), float(high))


def within(x: Floats, y: Floats, clusters: npt.NDArray[np.int64], *, seed: int = 0) -> Interval:
    """Pearson correlation of x and y after both are centred within their cluster, clusters resampled whole.

    NaN where one of them does not vary within any cluster.
    """
    _, place, sizes = np.unique(clusters, return_inverse=True, return_counts=True)

    def centred(values: Floats) -> Floats:
        return values - (np.bincount(place, weights=values) / sizes)[place]

    a, b = centred(np.asarray(x, float)), centred(np.asarray(y, float))
    parts = [np.bincount(place, weights=product) for product in (a * b, a * a, b * b)]
    xy, xx, yy = (part[(parts[1] > 1e-12) & (parts[2] > 1e-12)] for part in parts)  # those in which both vary
    if not len(xy):
        return Interval(math.nan, math.nan, math.nan)
    estimate = float(xy.sum() / math.sqrt(xx.sum() * yy.sum()))
    if len(xy) < LEAST:
        return Interval(estimate, math.nan, math.nan)
    index = counter_generator(seed, _STREAM, 3).integers(0, len(xy), size=(_RESAMPLES, len(xy)))
    values = xy[index].sum(-1) / np.sqrt(xx[index].sum(-1) * yy[index].sum(-1))
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(estimate, float(low), float(high))


def windows(steps: Sequence[int], share: float = 0.25) -> tuple[list[int], list[int]]:
    """The first and the last quarter of some steps, at least one each; both empty with fewer than two steps."""
    ordered = sorted(set(steps))
    if len(ordered) < 2:
        return [], []
    count = max(1, int(len(ordered) * share))
    return ordered[:count], ordered[-count:]
