"""Intervals and estimators for evaluations. numpy only; every resampling is a function of its seed.

Sources: Efron and Tibshirani 1993 (percentile and BCa bootstrap), Hesterberg 2015 (expanded percentiles), Wilson 1927
(interval of a proportion), Chen et al. 2021, arXiv 2107.03374, equation 1 (pass@k), Yao et al. 2024, arXiv 2406.12045
(pass^k). Which interval an evaluation takes is in `burnish.studies.intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_generator, stable_hash
from burnish.studies.student import t_quantile

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
    method: Literal["percentile", "expanded", "bca"] = "percentile",
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Bootstrap interval of a statistic of independent values, shape [items].

    "bca" corrects for bias and skewness (Efron 1987); "expanded" takes percentiles further out, which makes up for the
    resamples spreading less than samples do (Hesterberg 2015). Raises ValueError on missing values.
    """
    array = _checked(values, confidence, resamples)
    estimate = float(statistic(array, axis=-1))
    blocks = _resampled(len(array), resamples, seed)
    draws = np.concatenate([np.asarray(statistic(array[index], axis=-1)) for index in blocks])
    tails = _tails(len(array), confidence, expanded=method == "expanded")
    if method == "bca":
        tails = _bca_tails(array, statistic, estimate, draws, tails)
    low, high = np.quantile(draws, tails)
    return Interval(estimate, float(low), float(high), confidence)


def _tails(count: int, confidence: float, *, expanded: bool) -> npt.NDArray[np.float64]:
    """The two tail probabilities; expanded ones reach as far as a t interval of so many values does."""
    low = (1 - confidence) / 2
    if expanded and count > 1:
        low = NormalDist().cdf(math.sqrt(count / (count - 1)) * t_quantile(low, count - 1))
    return np.array([low, 1 - low])


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
    expanded: bool = False,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """Interval of the mean of values that come in clusters (samples of one item, items of one document).

    Whole clusters are resampled, so that values alike within a cluster do not pass for independent ones.
    """
    array = _checked(values, confidence, resamples)
    sums, sizes = cluster_sums(array, clusters)
    draws = np.concatenate(
        [sums[index].sum(-1) / sizes[index].sum(-1) for index in _resampled(len(sums), resamples, seed)]
    )
    low, high = np.quantile(draws, _tails(len(sums), confidence, expanded=expanded))
    return Interval(float(array.mean()), float(low), float(high), confidence)


def cluster_sums(
    values: Values, clusters: Sequence[Hashable]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Sums and sizes of the clusters, [clusters] each, in the order in which they first come."""
    if len(clusters) != len(values):
        raise ValueError(f"{len(values)} values need as many cluster names, got {len(clusters)}")
    numbers: dict[Hashable, int] = {}
    of_value = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])
    sums = np.bincount(of_value, weights=np.asarray(values, dtype=np.float64)).astype(np.float64)
    return sums, np.bincount(of_value).astype(np.float64)


def cluster_error(values: Values, clusters: Sequence[Hashable]) -> float:
    """Standard error of the mean of values in at least two clusters, which are independent of each other.

    The mean is a ratio of sums, linearised: sqrt(C / (C - 1) sum_c (sum_c - mean size_c)^2) / values (Cochran 1977).
    """
    array = _checked(values, 0.5)
    sums, sizes = cluster_sums(array, clusters)
    if len(sums) < 2:
        raise ValueError("one cluster tells nothing of how clusters differ: give at least two")
    residuals = sums - array.mean() * sizes
    return float(np.sqrt(len(sums) / (len(sums) - 1) * (residuals**2).sum()) / len(array))


def t_interval(values: Values, clusters: Sequence[Hashable] | None = None, *, confidence: float = 0.95) -> Interval:
    """Student's t interval of a mean, of independent values or of clusters: for few of them, such as seeds.

    Exact where the (cluster) means are normal, whatever their number. Raises ValueError for fewer than two.
    """
    array = _checked(values, confidence)
    named = range(len(array)) if clusters is None else clusters
    half = cluster_error(array, named) * t_quantile((1 + confidence) / 2, len(set(named)) - 1)
    centre = float(array.mean())
    return Interval(centre, centre - half, centre + half, confidence)


def wilson_interval(successes: int, count: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's score interval of a proportion; it stays inside [0, 1] and is sound near both ends."""
    if not 0 <= successes <= count or count < 1:
        raise ValueError(f"needs 0 <= successes <= count and count >= 1, got {successes} of {count}")
    _checked([0.0], confidence)
    return score_interval(successes / count, count, NormalDist().inv_cdf((1 + confidence) / 2), confidence)


def score_interval(share: float, count: float, z: float, confidence: float) -> Interval:
    """Wilson's formula for a share that is worth `count` independent answers, at `z` standard errors."""
    scale = 1 + z * z / count
    centre = (share + z * z / (2 * count)) / scale
    half = z / scale * math.sqrt(max(share * (1 - share), 0.0) / count + z * z / (4 * count * count))
    low = 0.0 if share <= 0 else centre - half
    high = 1.0 if share >= 1 else centre + half
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


def pass_all_k(samples: int, correct: int, k: int) -> float:
    """Unbiased estimate of the chance that k samples are all right (pass^k), as `pass_at_k`.

    C(correct, k) / C(samples, k) (Yao et al. 2024). Raises ValueError as `pass_at_k`.
    """
    if not 0 <= correct <= samples or not 1 <= k <= samples:
        raise ValueError(f"needs 0 <= correct <= samples and 1 <= k <= samples, got {correct}, {samples}, k = {k}")
    return math.comb(correct, k) / math.comb(samples, k)


def mcnemar(improved: int, worsened: int) -> float:
    """McNemar's exact test, two-sided: how probable so uneven a split of the problems that changed is by chance alone.

    min(1, 2 P(X <= min(improved, worsened))) with X ~ Binomial(improved + worsened, 1/2) (McNemar 1947; exact form,
    Dixon and Mood 1946). 1 where nothing changed.
    """
    if improved < 0 or worsened < 0:
        raise ValueError(f"counts cannot be negative, got {improved} and {worsened}")
    changed = improved + worsened
    tail = sum(math.comb(changed, i) for i in range(min(improved, worsened) + 1))
    return min(1.0, float(2 * Fraction(tail, 2**changed)))
