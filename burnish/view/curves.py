"""Metrics as a page draws them: every point of a short curve, a mean and a band of a long one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from burnish.studies import Evaluation
from burnish.studies.evaluation import Measure

FIRST_CHARTS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("Reward", ("reward", "reward/mean"), ""),
    ("Share of right samples", ("reward/numeric",), ""),
    ("Loss", ("loss",), ""),
    ("Entropy", ("entropy",), " nats"),
    ("Completion length", ("length", "length/mean", "completion_length"), " tokens"),
    ("Speed", ("timing/tokens_per_second",), " tokens/s"),
)
"""Title, the metric's possible names, unit: the curves that are shown first."""

POINTS, BUCKETS = 1000, 500
"""A curve of more than POINTS values is drawn as BUCKETS of them, each with its mean, least and greatest value."""

Curve = dict[str, list[float | None]]
"""x (steps), y, and for a long curve low and high, of equal length; null where a value is missing."""


def curve_of(points: Sequence[tuple[float, float]]) -> Curve:
    """The points (step, value) of a metric. No spike of a long curve is lost: it is in the band of its bucket."""
    if len(points) <= POINTS:
        return {"x": [_short(x) for x, _ in points], "y": [_short(y) for _, y in points]}
    made: Curve = {"x": [], "y": [], "low": [], "high": []}
    edges = [round(i * len(points) / BUCKETS) for i in range(BUCKETS + 1)]
    for start, stop in itertools.pairwise(edges):
        values = [y for _, y in points[start:stop] if math.isfinite(y)]
        made["x"].append(_short(points[stop - 1][0]))
        made["y"].append(_short(sum(values) / len(values)) if values else None)
        made["low"].append(_short(min(values)) if values else None)
        made["high"].append(_short(max(values)) if values else None)
    return made


def columns_of(records: Iterable[Mapping[str, Any]]) -> tuple[list[float], dict[str, list[float | None]]]:
    """Steps, and for every numeric metric its value at each of them; null where it is missing."""
    rows = list(records)
    names = dict.fromkeys(name for row in rows for name, value in row.items() if name != "step" and is_number(value))
    steps = [float(row["step"]) for row in rows]
    return steps, {name: [_of(row.get(name)) for row in rows] for name in names}


def is_number(value: Any) -> bool:
    """Whether a value of a metrics record is drawn."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of(value: Any) -> float | None:
    return _short(float(value)) if is_number(value) else None


def first_charts() -> list[dict[str, Any]]:
    """FIRST_CHARTS as JSON values."""
    return [{"title": title, "names": list(names), "unit": unit} for title, names, unit in FIRST_CHARTS]


def evaluation_curves(evaluations: Sequence[Evaluation]) -> list[dict[str, Any]]:
    """Accuracy, and reward where that is all there is, by weight version with 95 % intervals; from two on."""
    drawn = []
    measures: tuple[tuple[str, Measure], ...] = (("Held-out accuracy", "correct"), ("Held-out reward", "reward"))
    for title, measure in measures:
        found = [(float(e.version), i) for e in evaluations if (i := e.interval(measure)) is not None]
        if len(found) > 1 and not drawn:
            drawn.append(
                {
                    "title": title,
                    "x": [version for version, _ in found],
                    "y": [_short(interval.estimate) for _, interval in found],
                    "low": [_short(interval.low) for _, interval in found],
                    "high": [_short(interval.high) for _, interval in found],
                }
            )
    return drawn


def _short(value: float) -> float | None:
    """Six digits; null for what is not finite."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
