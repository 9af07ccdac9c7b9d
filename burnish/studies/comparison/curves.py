"""What one learning curve says, and what its end hides. numpy alone.

A curve is a list of evaluations: the budget spent so far, and the value there. More is better. Best, last, mean of the
last few, area, drawdown, collapse and the gain at parts of the budget are what comparisons of methods by their last
value alone leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SLACK = 1e-6
"""Share of the budget that may be missing or too much, where a study allows no more: a last bit of rounding."""


@dataclass(frozen=True)
class Measures:
    """What a curve comes to. Best, last, mean of the last and area are those of the whole budget and no more; drawdown
    and collapse are looked for in everything that was measured, also beyond it."""

    start: float
    best: float
    last: float
    last_mean: float
    """Mean of the last few evaluations within the budget."""
    area: float
    """Area under the curve divided by the budget: the mean height, which is `last` for a curve that is flat."""
    drawdown: float
    """How far the curve falls at most below the best value before."""
    collapsed: bool
    """Whether it ends below half of its best, or below its start by more than the smallest effect of interest."""
    gains: dict[str, float | None]
    """Share of the budget -> rise from the start; None where the curve does not reach."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def measures(
    spent: Sequence[float],
    values: Sequence[float],
    budget: float,
    *,
    smallest: float = 0.0,
    last: int = 3,
    slack: float = SLACK,
    shares: Sequence[float] = (0.5, 1.0, 2.0),
) -> Measures:
    """The measures of a curve; `spent` and `values` have shape [evaluations], the first before training.
    `slack` is the share of the budget by which a curve may end early or late and still count as having spent it.

    Raises ValueError when the evaluations are not in order, a value is missing, or there is but one.
    """
    x, y = np.asarray(spent, np.float64) / budget, np.asarray(values, np.float64)
    if x.shape != y.shape or x.ndim != 1 or len(x) < 2:
        raise ValueError(f"a curve needs two evaluations or more, got {x.shape} places and {y.shape} values")
    if not np.isfinite(y).all() or (np.diff(x) <= 0).any():
        raise ValueError("a curve needs a value at every evaluation, and the budget spent must grow between them")
    inside = x <= 1 + slack
    within = y[inside]
    return Measures(
        start=float(y[0]),
        best=float(within.max()),
        last=float(within[-1]),
        last_mean=float(within[-last:].mean()),
        area=area(x[inside], within),
        drawdown=drawdown(y),
        collapsed=bool(y[-1] < y.max() / 2 or y[-1] < y[0] - smallest),
        gains={f"{share:g}": gain(x, y, share, slack) for share in shares},
    )


def area(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> float:
    """Area under straight lines between the points, divided by the width.

    >>> area(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 1.0]))
    0.75
    """
    if len(x) < 2:
        return float(y[-1])
    return float(np.trapezoid(y, x) / (x[-1] - x[0]))


def drawdown(y: npt.NDArray[np.float64]) -> float:
    """The largest fall below the best value before.

    >>> round(drawdown(np.array([0.2, 0.6, 0.5, 0.7, 0.4])), 6), drawdown(np.array([0.1, 0.2]))
    (0.3, 0.0)
    """
    return float((np.maximum.accumulate(y) - y).max())


def gain(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], share: float, slack: float = SLACK) -> float | None:
    """Rise from the start after a share of the budget, on straight lines between evaluations."""
    if x[-1] < share * (1 - slack):
        return None
    return float(np.interp(share, x, y) - y[0])


def at(spent: Sequence[float], values: Sequence[float], places: Sequence[float]) -> list[float | None]:
    """The values at given places, on straight lines between evaluations; None beyond the last."""
    x, y = np.asarray(spent, np.float64), np.asarray(values, np.float64)
    return [None if place > x[-1] * (1 + SLACK) else float(np.interp(place, x, y)) for place in places]


def below(own: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Share of evaluations after the first at which one curve lies below another, ties as half; None without any."""
    pairs = [(a, b) for a, b in zip(own[1:], other[1:], strict=True) if a is not None and b is not None]
    return float(np.mean([1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs])) if pairs else None


def ranks(means: dict[str, float], tolerance: float = 1e-12) -> dict[str, float]:
    """Rank of each by its value, the highest first; equal ones share the mean of their ranks.

    >>> ranks({"a": 0.5, "b": 0.7, "c": 0.5})
    {'a': 2.5, 'b': 1.0, 'c': 2.5}
    """
    return {
        name: 1.0
        + sum(other > value + tolerance for other in means.values())
        + (sum(abs(other - value) <= tolerance for other in means.values()) - 1) / 2
        for name, value in means.items()
    }
