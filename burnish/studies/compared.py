"""Two models on the same problems: paired intervals, McNemar's test, and the category that gained least. numpy only."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.errors import InputError
from burnish.studies import measures
from burnish.studies.evaluation import Evaluation
from burnish.studies.intervals import paired_interval
from burnish.studies.statistics import Interval, mcnemar

_CONFIDENCE = 0.95
_METRICS = {"correct": "accuracy", "well_formed": "format_rate", "reward": "reward"}
"""Measures of an item -> the metric of an evaluation."""


@dataclass(frozen=True)
class Comparison:
    """Two evaluations of the same items; the difference is after - before, with its paired interval over problems."""

    measure: str
    before: Interval
    after: Interval
    difference: Interval
    items: int
    improved: int
    worsened: int
    p_value: float | None = None
    """McNemar's exact test, two-sided: of right and wrong, or of other shares, with one answer to each problem."""
    method: str = "paired bootstrap"
    """What the interval of the difference is: `intervals.paired_interval` has the names."""

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return dataclasses.asdict(self)


def compare(
    before: Evaluation,
    after: Evaluation,
    measure: str = "correct",
    *,
    confidence: float = _CONFIDENCE,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """The paired difference over the problems that both have a value for.

    `measure` is `correct`, `well_formed`, `reward`, or any metric of an evaluation, such as `pass@4` or `length`.
    Raises InputError when the items or the sampling differ, and when nothing was judged.
    """
    _check_alike(before, after)
    metric = _METRICS.get(measure, measure)
    one, two = measures.per_problem(before, metric), measures.per_problem(after, metric)
    shared = [task for task in one if task in two]
    if not shared:
        raise InputError(f"no item has {measure!r} in both {before.name!r} and {after.name!r}: nothing to compare")
    x, y = np.array([one[task] for task in shared]), np.array([two[task] for task in shared])
    if len(shared) == 1 and not 0 <= min(x[0], y[0]) <= max(x[0], y[0]) <= 1:
        raise InputError(f"one problem alone has {measure!r} in both evaluations, which tells nothing of a spread")
    difference, method = paired_interval(x, y, confidence=confidence, resamples=resamples, seed=seed)
    improved, worsened = int((y > x).sum()), int((y < x).sum())
    binary = before.samples == 1 and bool(np.isin([x, y], (0.0, 1.0)).all())
    return Comparison(
        measure=measure, before=_alone(before, metric), after=_alone(after, metric), difference=difference,
        items=len(shared), improved=improved, worsened=worsened,
        p_value=mcnemar(improved, worsened) if binary else None, method=method,
    )  # fmt: skip


def _alone(evaluation: Evaluation, metric: str) -> Interval:
    found = measures.result_of(evaluation, metric).interval
    assert found is not None  # there are two problems, or their values are bounded
    return found


def _check_alike(before: Evaluation, after: Evaluation) -> None:
    asked = [[(item.task, item.sample) for item in evaluation.items] for evaluation in (before, after)]
    if set(asked[0]) != set(asked[1]):
        only = [len(set(a) - set(b)) for a, b in (asked, asked[::-1])]
        raise InputError(
            f"evaluations {before.name!r} and {after.name!r} have different items ({only[0]} only in the first, "
            f"{only[1]} only in the second): evaluate both on the same tasks"
        )
    # stop tokens are the model's own
    unlike = [key for key in before.params if key != "stop_ids" and before.params[key] != after.params.get(key)]
    if unlike:
        raise InputError(
            f"evaluations {before.name!r} and {after.name!r} were sampled differently: {unlike[0]} is "
            f"{before.params[unlike[0]]!r} and {after.params.get(unlike[0])!r}"
        )


# ---------------------------------------------------------------- categories


@dataclass(frozen=True)
class Lift:
    """How the categories of one label moved, and the least of them: what an average hides."""

    label: str
    metric: str
    category: str
    """The category that gained least."""
    lift: float
    """Its difference, after - before."""
    low: float
    high: float
    """The least true difference lies between these with `confidence`: the intervals of the categories hold together
    (Bonferroni: each at 1 - (1 - confidence) / categories), and these are their least ends."""
    confidence: float
    categories: dict[str, Interval]
    """Every category -> its difference, each with the interval that holds together with the others."""
    problems: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return dataclasses.asdict(self)


def minimum_lift(
    before: Evaluation, after: Evaluation, label: str, metric: str | None = None, *, seed: int = 0
) -> Lift:
    """The category that gained least, of those that `label` names (a key of the items' labels, such as `level`).

    Raises InputError where the label splits nothing, and as `compare`.
    """
    _check_alike(before, after)
    values = measures.labels(before).get(label, [])
    if not values:
        known = ", ".join(measures.labels(before)) or "none"
        raise InputError(f"no label {label!r} splits the problems of {before.name!r}; there are: {known}")
    metric = metric or measures.metrics_of(before)[0]
    one, two = measures.per_problem(before, metric), measures.per_problem(after, metric)
    where = {item.task: item.labels.get(label) for item in before.items}
    level = 1 - (1 - _CONFIDENCE) / len(values)
    found: dict[str, Interval] = {}
    problems: dict[str, int] = {}
    for value in values:
        shared = [task for task in one if task in two and where[task] == value]
        if shared:
            x, y = np.array([one[task] for task in shared]), np.array([two[task] for task in shared])
            if len(shared) == 1 and not 0 <= min(x[0], y[0]) <= max(x[0], y[0]) <= 1:
                continue  # one problem whose score has no bounds has no interval
            found[value], problems[value] = paired_interval(x, y, confidence=level, seed=seed)[0], len(shared)
    if not found:
        raise InputError(f"no problem has {metric!r} in both {before.name!r} and {after.name!r}: nothing to compare")
    least = min(found, key=lambda value: found[value].estimate)
    return Lift(
        label, metric, least, found[least].estimate, min(i.low for i in found.values()),
        min(i.high for i in found.values()), _CONFIDENCE, found, problems,
    )  # fmt: skip


def minimum_lifts(before: Evaluation, after: Evaluation, *, seed: int = 0) -> list[Lift]:
    """`minimum_lift` for every label that splits the problems."""
    return [minimum_lift(before, after, label, seed=seed) for label in measures.labels(before)]
