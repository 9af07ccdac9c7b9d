"""Intervals of ratios of sums over clusters: groups are resampled whole, since their members are not independent.

With fewer than `LEAST` clusters there is no interval: its bounds are NaN, and no rule is broken by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_generator, stable_hash
from burnish.studies.statistics import Interval, score_interval
from burnish.studies.student import t_quantile

Floats = npt.NDArray[np.float64]

LEAST = 5
"""Fewest clusters that an interval is taken over."""

_STREAM = stable_hash("burnish.studies.audits.intervals")
_RESAMPLES = 2000
FEW = 20
"""Fewer clusters than so many are too few to resample."""


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

    def draws(self, seed: int) -> Floats:
        """The ratio in resamples of the clusters, [resamples]."""
        generator = counter_generator(seed, _STREAM)
        index = generator.integers(0, len(self), size=(_RESAMPLES, len(self)))
        bottom = self.bottom[index].sum(-1)
        return np.divide(self.top[index].sum(-1), bottom, out=np.full(len(bottom), np.nan), where=bottom != 0)

    @property
    def error(self) -> float:
        """Standard error of the ratio, linearised (Cochran 1977): from at least two clusters."""
        count = len(self)
        residuals = self.top - self.ratio * self.bottom
        return float(np.sqrt(count / (count - 1) * (residuals**2).sum()) / abs(self.bottom.sum()))


def ratio(sums: Sums, *, seed: int = 0, share: bool = False) -> Interval:
    """A ratio of sums with its interval: Student's t below 20 clusters, a bootstrap of clusters from there on.

    `share`: the ratio lies between 0 and 1. Then it is Wilson's, for as many independent observations as would vary as
    much, p (1 - p) / error^2, and at least the number of clusters.
    """
    estimate = sums.ratio
    if len(sums) < LEAST or not math.isfinite(estimate):
        return Interval(estimate, math.nan, math.nan)
    t = t_quantile(0.975, len(sums) - 1)
    if share and 0 <= estimate <= 1:
        worth = estimate * (1 - estimate) / sums.error**2 if sums.error > 0 else 0.0
        return score_interval(estimate, max(worth, len(sums)), t, 0.95)
    if len(sums) < FEW:
        return Interval(estimate, estimate - t * sums.error, estimate + t * sums.error)
    low, high = np.nanquantile(sums.draws(seed), [0.025, 0.975])
    return Interval(estimate, float(low), float(high))


def change(first: Sums, last: Sums) -> Interval:
    """Ratio of the last minus ratio of the first, which are independent; t with the fewer clusters' freedom."""
    estimate = last.ratio - first.ratio
    if not _enough(first, last):
        return Interval(estimate, math.nan, math.nan)
    half = t_quantile(0.975, min(len(first), len(last)) - 1) * math.hypot(first.error, last.error)
    return Interval(estimate, estimate - half, estimate + half)


def growth(first: Sums, last: Sums) -> Interval:
    """Ratio of the last over ratio of the first, both positive: as `change`, of logarithms. NaN where that is 0."""
    if not first.ratio > 0:
        return Interval(math.nan, math.nan, math.nan)
    estimate = last.ratio / first.ratio
    if not _enough(first, last):
        return Interval(estimate, math.nan, math.nan)
    t = t_quantile(0.975, min(len(first), len(last)) - 1)
    if estimate <= 0:  # no logarithm: what the last could be at most is told by the absolute error alone
        return Interval(estimate, 0.0, t * math.hypot(last.error, 1 / len(last)) / first.ratio)
    half = t * math.hypot(first.error / first.ratio, last.error / last.ratio)
    return Interval(estimate, estimate * math.exp(-half), estimate * math.exp(half))


def _enough(first: Sums, last: Sums) -> bool:
    return min(len(first), len(last)) >= LEAST and math.isfinite(first.ratio + last.ratio)


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
