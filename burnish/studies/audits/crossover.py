"""pass@k of the trained model against the base model, and where the base overtakes it.

Unbiased pass@k (Chen et al. 2021, arXiv 2107.03374); the crossover is the smallest k with pass@k(base) >=
pass@k(trained) (Yue et al. 2025, arXiv 2504.13837).
"""

from __future__ import annotations

import numpy as np

from burnish.studies.audits.asking import Asked, recipe_of, speaker_of
from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.places import base as base_of
from burnish.studies.audits.places import trained as trained_of
from burnish.studies.audits.reading import RunFiles
from burnish.studies.evaluation import Evaluation
from burnish.studies.intervals import mean_interval, paired_interval
from burnish.studies.statistics import Interval, pass_at_k

NAME = "crossover"
RULE = (
    "fault: with the most samples drawn the trained model solves fewer of the tasks than the base model (interval "
    "below 0); look: its pass@k is at or below the base model's at some k"
)
CANNOT = (
    "It sees no further than the samples drawn of each task: a base model may overtake at a larger k, and where "
    "answers can be guessed, a large k measures guessing."
)


def crossover(
    run: RunFiles, *, base: str | None, checkpoint: int | None, tasks: int, samples: int, seed: int
) -> Finding:
    """Sample both models on the recipe's held-out tasks. Raises UnmeasuredError without any."""
    recipe = recipe_of(run)
    points = base_of(run, base), trained_of(run, checkpoint)
    asked = Asked(recipe, tasks, seed)
    temperature = getattr(getattr(recipe, "sampling", None), "temperature", 1.0)
    right = [right_of(asked.ask(speaker_of(recipe, point), samples, temperature)) for point in points]
    shared = [task for task in right[0] if task in right[1]]
    shared = [task for task in shared if len(right[0][task]) == len(right[1][task]) == samples]
    if not shared:
        raise UnmeasuredError("no task has all its samples judged for both models")
    ks = [k for k in (2**i for i in range(20)) if k < samples] + [samples]
    table = {k: tuple(_passes(found, shared, samples, k) for found in right) for k in ks}
    figures, curves = [], {"base": [], "trained": []}
    crossing = None
    for k, (before, after) in table.items():
        for name, values in (("base", before), ("trained", after)):
            figures.append(Figure.of(f"pass@{k}_{name}", _mean(values, seed), "mean over tasks"))
            curves[name].append((float(k), float(values.mean())))
        difference = paired_interval(before, after, resamples=2000, seed=seed)[0]
        figures.append(Figure.of(f"pass@{k}_difference", difference, "trained minus base"))
        if crossing is None and before.mean() >= after.mean():
            crossing = k
    last = figures[-1]
    figures.insert(
        0, Figure("crossover", float("nan") if crossing is None else float(crossing), over=f"k up to {samples}")
    )
    level = graded(fault=last.high is not None and last.high < 0, look=crossing is not None)
    where = (
        f"the base model is level or ahead first at k = {crossing}" if crossing else f"no crossover up to k = {samples}"
    )
    says = (
        f"pass@1 {table[1][0].mean():.3f} -> {table[1][1].mean():.3f}, pass@{samples} "
        f"{table[samples][0].mean():.3f} -> {table[samples][1].mean():.3f} over {len(shared)} tasks; {where}"
    )
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures), curves)


def right_of(evaluation: Evaluation) -> dict[str, list[bool]]:
    """Task -> which of its judged samples are right."""
    found: dict[str, list[bool]] = {}
    for item in evaluation.items:
        if item.correct is not None:
            found.setdefault(item.task, []).append(item.correct)
    return found


def _passes(found: dict[str, list[bool]], tasks: list[str], samples: int, k: int) -> np.ndarray:
    return np.array([pass_at_k(samples, sum(found[task]), k) for task in tasks])


def _mean(values: np.ndarray, seed: int) -> Interval:
    found, _ = mean_interval(values, range(len(values)), seed=seed)
    assert found is not None  # shares have bounds, if nothing else
    return found
