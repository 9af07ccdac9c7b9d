"""What an evaluation comes to: one row a metric, each with its interval and how it was asked. numpy only.

A run's held-out evaluation and `burnish eval` both have their numbers from here. Sources: pass@k, Chen et al. 2021,
arXiv 2107.03374, equation 1; pass^k, Yao et al. 2024, arXiv 2406.12045.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import numpy as np

from burnish.errors import InputError
from burnish.studies.evaluation import SCORED, Evaluation, Item
from burnish.studies.intervals import mean_interval
from burnish.studies.statistics import Interval, pass_all_k, pass_at_k
from burnish.tasks.suggest import did_you_mean

CONFIDENCE = 0.95
MOST_CATEGORIES = 50
"""A label with more values than so many tells tasks apart and is no category."""

_MEANS = {
    "format_rate": "well_formed", "reward": "reward", "length": "length", "truncated": "truncated",
    "entropy": "surprisal",
}  # fmt: skip
"""Metric -> the property of an item that it is the mean of. `accuracy` and `avg@N` are of `correct`."""
_OWN = frozenset(("correct", *_MEANS.values()))
_PASS = re.compile(r"pass([@^])(\d+)")


@dataclass(frozen=True)
class Result:
    """One number of an evaluation."""

    task: str
    n: int
    """Problems that have a value."""
    metric: str
    value: float
    interval: Interval | None
    """Of 95 %; None where one problem alone has a value, which tells nothing of a spread."""
    method: str
    """What the interval is: `intervals.mean_interval` has the names."""
    sampling: dict[str, Any] = field(repr=False)
    template: str = field(repr=False)
    category: str | None = None
    """ "level=3": of the problems with this label alone."""
    missing: int = 0
    """Answers, or for pass@k problems, without a value: left out, never counted as wrong."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        interval = self.interval and {
            "low": self.interval.low, "high": self.interval.high, "confidence": self.interval.confidence,
            "method": self.method,
        }  # fmt: skip
        rest = {key: getattr(self, key) for key in ("sampling", "template")}
        shown: dict[str, Any] = {"task": self.task, "n": self.n, "metric": self.metric, "value": self.value}
        if self.category is not None:
            shown["category"] = self.category
        return {**shown, "interval": interval, "missing": self.missing, **rest}


def sampling_of(evaluation: Evaluation) -> dict[str, Any]:
    """How an evaluation was sampled: the parameters, the samples of each task, the seed."""
    return {**evaluation.params, "samples": evaluation.samples, "seed": evaluation.seed}


def metrics_of(evaluation: Evaluation) -> list[str]:
    """The metrics that an evaluation has values for, the main one first."""
    n = evaluation.samples
    found = []
    if evaluation.missing("correct") < len(evaluation.items):
        found.append("accuracy" if n == 1 else f"avg@{n}")
        powers = [2**i for i in range(1, n.bit_length()) if 2**i < n]
        found += [f"pass{sign}{k}" for sign in "@^" for k in ([*powers, n] if n > 1 else ())]
    found += [m for m, name in _MEANS.items() if any(_value(item, name) is not None for item in evaluation.items)]
    found = [*dict.fromkeys(name for item in evaluation.items for name in item.scores), *found]
    if evaluation.params.get("temperature") == 0 and "entropy" in found:
        found.remove("entropy")  # what was chosen and not drawn is no sample of the distribution
    return found


def _value(item: Item, name: str) -> float | None:
    if name in ("truncated", "length") and item.finish == SCORED:
        return None
    if name == "truncated":
        return float(item.finish != "stop")
    value = item.scores.get(name) if name not in _OWN else getattr(item, name)
    return None if value is None else float(value)


def item_values(evaluation: Evaluation, metric: str) -> tuple[list[float], list[str]]:
    """Values and the problems they belong to: of every answer, or for pass@k and pass^k of every problem.

    Raises InputError for a metric there is not, and for a k above the samples that were drawn.
    """
    if found := _PASS.fullmatch(metric):
        return _passes(evaluation, found[1], int(found[2]))
    mean = metric == "accuracy" or metric == f"avg@{evaluation.samples}"
    scores = dict.fromkeys(name for item in evaluation.items for name in item.scores)
    name = metric if metric in scores else "correct" if mean else _MEANS.get(metric)
    if name is None:
        known = [*scores, "accuracy", f"avg@{evaluation.samples}", "pass@2", "pass^2", *_MEANS]
        raise InputError(f"there is no metric {metric!r}; {did_you_mean(metric, known)}")
    pairs = [(value, item.task) for item in evaluation.items if (value := _value(item, name)) is not None]
    return [value for value, _ in pairs], [task for _, task in pairs]


def _passes(evaluation: Evaluation, sign: str, k: int) -> tuple[list[float], list[str]]:
    """Estimates for the problems with at least k judged answers."""
    if not 1 <= k <= evaluation.samples:
        raise InputError(
            f"pass{sign}{k} needs {k} samples of each task, and {evaluation.samples} were drawn: give samples={k}, or "
            "more of them"
        )
    counts: dict[str, list[int]] = {}
    for item in evaluation.items:
        if item.correct is not None:
            counts.setdefault(item.task, []).append(int(item.correct))
    estimate = pass_at_k if sign == "@" else pass_all_k
    kept = {task: estimate(len(c), sum(c), k) for task, c in counts.items() if len(c) >= k}
    return list(kept.values()), list(kept)


def per_problem(evaluation: Evaluation, metric: str) -> dict[str, float]:
    """The metric of each problem, task id -> mean over its answers. Raises InputError as `item_values`."""
    found: dict[str, list[float]] = {}
    for value, task in zip(*item_values(evaluation, metric), strict=True):
        found.setdefault(task, []).append(value)
    return {task: float(np.mean(values)) for task, values in found.items()}


def result_of(evaluation: Evaluation, metric: str, *, category: str | None = None, task: str | None = None) -> Result:
    """One metric with its interval. Raises InputError where there is none, or no value of it."""
    values, tasks = item_values(evaluation, metric)
    if not values:
        raise InputError(f"evaluation {evaluation.name!r} has no value of {metric!r}: nothing was judged")
    interval, method = mean_interval(values, tasks, confidence=CONFIDENCE, seed=evaluation.seed)
    asked = len({item.task for item in evaluation.items}) if _PASS.fullmatch(metric) else len(evaluation.items)
    return Result(
        task=task or evaluation.name, n=len(set(tasks)), metric=metric, value=float(np.mean(values)),
        interval=interval, method=method, sampling=sampling_of(evaluation),
        template=str(evaluation.notes.get("template", "")), category=category, missing=asked - len(values),
    )  # fmt: skip


def results_of(evaluation: Evaluation, *, task: str | None = None) -> list[Result]:
    """Every metric of an evaluation, as rows."""
    return [*(result_of(evaluation, m, task=task) for m in metrics_of(evaluation)), *_aggregates(evaluation, task)]


def _aggregates(evaluation: Evaluation, task: str | None) -> list[Result]:
    """Metrics that are no mean over problems, as lm-eval gives them with its standard error."""
    found = []
    for metric, given in evaluation.notes.get("aggregates", {}).items():
        value, error = given["value"], given["stderr"]
        half = None if error is None else NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
        found.append(
            Result(
                task or evaluation.name, len({item.task for item in evaluation.items}), metric, value,
                None if half is None else Interval(value, value - half, value + half, CONFIDENCE),
                "none" if half is None else "normal, lm-eval's standard error", sampling_of(evaluation),
                str(evaluation.notes.get("template", "")),
            )
        )  # fmt: skip
    return found


# ---------------------------------------------------------------- categories


def labels(evaluation: Evaluation) -> dict[str, list[str]]:
    """The labels that split an evaluation into categories: name -> values, in order."""
    found: dict[str, dict[str, None]] = {}
    for item in evaluation.items:
        for name, value in item.labels.items():
            found.setdefault(name, {})[value] = None
    return {name: sorted(v, key=_natural) for name, v in found.items() if 2 <= len(v) <= MOST_CATEGORIES}


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers by their size, before words."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def part_of(evaluation: Evaluation, label: str, value: str) -> Evaluation:
    """The problems of one category."""
    kept = tuple(item for item in evaluation.items if item.labels.get(label) == value)
    return dataclasses.replace(evaluation, items=kept)


def categories_of(evaluation: Evaluation, *, task: str | None = None) -> list[Result]:
    """The main metric of each category, for every label that splits the problems."""
    found = []
    for label, values in labels(evaluation).items():
        for value in values:
            part = part_of(evaluation, label, value)
            metrics = metrics_of(part)
            found.append(result_of(part, metrics[0], category=f"{label}={value}", task=task))
    return found
