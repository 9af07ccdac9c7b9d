"""Paired differences over seeds: a t interval, its p value, and Holm's correction for several comparisons. numpy alone.

Sources: Student 1908; Holm 1979; the incomplete beta function as a continued fraction (Lentz's method; Press et al.,
Numerical Recipes, section 6.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from burnish.studies.statistics import Interval

_TINY = 1e-300


def student(t: float, freedom: float) -> float:
    """Chance that Student's t with so many degrees of freedom lies farther from zero than `t`, on both sides.

    >>> round(student(2.776445, 4), 6), student(0.0, 3)
    (0.05, 1.0)
    """
    if math.isinf(t):
        return 0.0
    return _beta(freedom / (freedom + t * t), freedom / 2, 0.5)


def quantile(confidence: float, freedom: float) -> float:
    """The t within which Student's t lies with this probability.

    >>> round(quantile(0.95, 4), 4)
    2.7764
    """
    low, high = 0.0, 1.0
    while student(high, freedom) > 1 - confidence:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if student(middle, freedom) > 1 - confidence else (low, middle)
    return (low + high) / 2


def t_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Interval of the mean of values that are normally distributed, such as differences over seeds, shape [seeds].

    Raises ValueError for fewer than two, or for one that is missing.
    """
    x = np.asarray(values, np.float64)
    if x.ndim != 1 or len(x) < 2 or not np.isfinite(x).all():
        raise ValueError(f"an interval over seeds needs two values or more and none missing, got {list(values)}")
    half = quantile(confidence, len(x) - 1) * float(x.std(ddof=1)) / math.sqrt(len(x))
    mean = float(x.mean())
    return Interval(mean, mean - half, mean + half, confidence)


def t_test(values: Sequence[float]) -> float:
    """Two-sided p value of the mean being zero; 1 where all values are zero."""
    x = np.asarray(values, np.float64)
    error = float(x.std(ddof=1)) / math.sqrt(len(x))
    mean = float(x.mean())
    if error == 0:
        return 1.0 if mean == 0 else 0.0
    return student(mean / error, len(x) - 1)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's p values: what each has to stay below for the chance of any false finding to stay below that too.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    order = sorted(range(len(values)), key=values.__getitem__)
    found, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        found[index] = highest
    return found


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there the fraction converges faster
        return 1 - _beta(1 - x, b, a)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(1 - x))
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, 1000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away(1 + step * d)
            c = _away(1 + step / c)
            result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return result


def _away(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
