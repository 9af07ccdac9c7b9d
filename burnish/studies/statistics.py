"""Intervals and estimators for evaluations. numpy only; every resampling is a function of its seed.

Sources: Efron and Tibshirani 1993 (percentile and BCa bootstrap), Wilson 1927 (interval of a proportion), Chen et al.
2021, arXiv 2107.03374, equation 1 (pass@k).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_generator, stable_hash

Values = Sequence[float] | npt.NDArray[Any]
Statistic = Callable[..., npt.NDArray[np.float64]]
"""A function of an array and `axis=`, such as `numpy.mean`."""

_STREAM = stable_hash("burnish.studies.statistics")
_CHUNK = 2_000_000
"""Resampled values held at a time."""


@dataclass(frozen=True)
class Interval:
    """An estimate with the interval that covers the truth with probability `confidence`."""

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"


def _checked(values: Values, confidence: float, resamples: int = 1) -> npt.NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"needs a list of at least one value, got shape {list(array.shape)}")
    if not np.isfinite(array).all():
        raise ValueError("a value is missing or infinite: leave such items out, in pairs where they are paired")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not at {confidence}")
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    return array


def _resampled(count: int, resamples: int, seed: int) -> Iterator[npt.NDArray[np.int64]]:
    """Indices drawn with replacement, in blocks of shape [rows, count]."""
    generator = counter_generator(seed, _STREAM)
    rows = max(1, _CHUNK // count)
    for start in range(0, resamples, rows):
        yield generator.integers(0, count, size=(min(rows, resamples - start), count))


def bootstrap_interval(
    values: Values,
    statistic: Statistic = np.mean,
    *,
    method: Literal["percentile", "bca"] = "percentile",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of a statistic of independent values, shape [items].

    "bca" corrects for bias and skewness (Efron 1987). Raises ValueError on missing values.
    """
    array = _checked(values, confidence, resamples)
    estimate = float(statistic(array, axis=-1))
    blocks = _resampled(len(array), resamples, seed)
    draws = np.concatenate([np.asarray(statistic(array[index], axis=-1)) for index in blocks])
    tails = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        tails = _bca_tails(array, statistic, estimate, draws, tails)
    low, high = np.quantile(draws, tails)
    return Interval(estimate, float(low), float(high), confidence)


def _bca_tails(
    array: npt.NDArray[np.float64],
    statistic: Statistic,
    estimate: float,
    draws: npt.NDArray[np.float64],
    tails: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Tail probabilities corrected for bias z0 and acceleration a (Efron and Tibshirani 1993, 14.10-14.15)."""
    normal = NormalDist()
    below = float(
        np.mean(draws < estimate) + np.mean(draws == estimate) / 2
    )  # ties count half, as discrete values have
    if len(array) < 2 or not 0 < below < 1:
        return tails  # every resample is alike: there is no bias or skewness to correct
    left_out = np.array([float(statistic(np.delete(array, i), axis=-1)) for i in range(len(array))])
    influence = left_out.mean() - left_out
    spread = (influence**2).sum() ** 1.5
    acceleration = 0.0 if spread == 0 else float((influence**3).sum() / (6 * spread))
    bias = normal.inv_cdf(below)
    shifted = [bias + normal.inv_cdf(float(tail)) for tail in tails]
    return np.array([normal.cdf(bias + z / (1 - acceleration * z)) for z in shifted])


def paired_bootstrap(
    before: Values, after: Values, *, confidence: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Interval:
    """Interval of mean(after) - mean(before) over the same items, shape [items] each, resampled as pairs.

    Raises ValueError when the two differ in length or miss a value.
    """
    one, two = _checked(before, confidence), _checked(after, confidence)
    if len(one) != len(two):
        raise ValueError(f"paired values need the same items: {len(one)} before, {len(two)} after")
    return bootstrap_interval(two - one, confidence=confidence, resamples=resamples, seed=seed)


def cluster_bootstrap(
    values: Values,
    clusters: Sequence[Hashable],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Interval of the mean of values that come in clusters (samples of one item, items of one document).

    Whole clusters are resampled, so that values alike within a cluster do not pass for independent ones.
    """
    array = _checked(values, confidence, resamples)
    if len(clusters) != len(array):
        raise ValueError(f"{len(array)} values need as many cluster names, got {len(clusters)}")
    numbers: dict[Hashable, int] = {}
    of_value = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])
    sums = np.bincount(of_value, weights=array)
    sizes = np.bincount(of_value)
    draws = np.concatenate(
        [sums[index].sum(-1) / sizes[index].sum(-1) for index in _resampled(len(numbers), resamples, seed)]
    )
    low, high = np.quantile(draws, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(array.mean()), float(low), float(high), confidence)


def wilson_interval(successes: int, count: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion; it stays inside [0, 1] and is sound near both ends."""
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"needs 0 <= successes <= count and count >= 1, got {successes} of {count}")
    _checked([0.0], confidence)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = successes / count
    scale = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    low = 0.0 if successes == 0 else centre - half
    high = 1.0 if successes == count else centre + half
    return Interval(share, low, high, confidence)


def pass_at_k(samples: int, correct: int, k: int) -> float:
    """Unbiased estimate of the chance that one of k samples is right, from `samples` drawn of which `correct` were.

    1 - C(samples - correct, k) / C(samples, k), as a product that does not overflow (Chen et al. 2021).
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise ValueError(f"needs 0 <= correct <= samples and 1 <= k <= samples, got {correct}, {samples}, k = {k}")
    if samples - correct < k:
        return 1.0
    wrong = np.arange(samples - correct + 1, samples + 1, dtype=np.float64)
    return float(1 - np.prod(1 - k / wrong))
