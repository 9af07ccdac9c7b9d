"""Quantiles of Student's t distribution, for intervals over few clusters. Plain Python.

The distribution function is the regularised incomplete beta function, by its continued fraction (Abramowitz and Stegun
26.5.8, evaluated as Lentz 1976 does it); the quantile is found by halving.
"""

from __future__ import annotations

import math
from functools import lru_cache

_STEPS, _ENOUGH, _TINY = 300, 1e-15, 1e-300


def _fraction(a: float, b: float, x: float) -> float:
    """The continued fraction of the incomplete beta function."""
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), _TINY)
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1.0 + term * d, 1.0 + term / c
            d, c = 1.0 / (d if abs(d) > _TINY else _TINY), (c if abs(c) > _TINY else _TINY)
            value *= d * c
        if abs(d * c - 1.0) < _ENOUGH:
            return value
    return value


def _beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function I_x(a, b)."""
    if x in (0.0, 1.0):
        return x
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1.0 - front * _fraction(b, a, 1.0 - x) / b


@lru_cache(maxsize=256)
def t_quantile(probability: float, freedom: float) -> float:
    """The value that a t variable of `freedom` > 0 degrees of freedom stays below with this probability.

    Raises ValueError outside of 0 < probability < 1 and freedom > 0.
    """
    if not 0 < probability < 1 or not freedom > 0:
        raise ValueError(f"needs 0 < probability < 1 and freedom > 0, got {probability} and {freedom}")
    if probability < 0.5:
        return -t_quantile(1 - probability, freedom)
    tail = 2 * (1 - probability)
    low, high = 0.0, 1.0  # of x = freedom / (freedom + t^2), which falls as t grows
    for _ in range(200):
        middle = (low + high) / 2
        if _beta(freedom / 2, 0.5, middle) < tail:
            low = middle
        else:
            high = middle
    x = (low + high) / 2
    return math.sqrt(freedom * (1 - x) / x) if x > 0 else math.inf
