"""How often the intervals of an evaluation cover the truth, by simulation: `python -m benchmarks.coverage [COUNT]`.

Problems differ in their chance of being solved by a beta distribution; lengths by a gamma distribution; of paired
answers some improve and some worsen. docs/evaluation.md has what it prints.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import numpy as np

from burnish.studies import (
    Interval,
    bootstrap_interval,
    cluster_bootstrap,
    mean_interval,
    paired_interval,
    t_interval,
    wilson_interval,
)

RESAMPLES = 500
BETAS = ((0.5, 0.5), (2.0, 2.0), (1.0, 4.0), (4.0, 1.0), (0.2, 1.8), (0.1, 0.1), (0.05, 0.95))
CHANGES = ((0.3, 0.1), (0.1, 0.1), (0.1, 0.0), (0.05, 0.05), (0.04, 0.0), (0.02, 0.02))

Draw = Callable[[np.random.Generator, int], tuple[Interval, float]]
"""From a generator and a seed to an interval and the truth."""


def shares(problems: int, samples: int, beta: tuple[float, float], *, resampled: bool = False) -> Draw:
    """Right and wrong answers to problems."""
    names = np.repeat(np.arange(problems), samples).tolist()

    def draw(generator: np.random.Generator, seed: int) -> tuple[Interval, float]:
        chances = generator.beta(*beta, problems)
        answers = (generator.random((problems, samples)) < chances[:, None]).astype(float).ravel()
        found = cluster_bootstrap(answers, names, resamples=RESAMPLES, seed=seed) if resampled else None
        return found or _of(mean_interval(answers, names)[0]), beta[0] / sum(beta)

    return draw


def lengths(problems: int, samples: int) -> Draw:
    """Lengths of answers, skewed as lengths are."""
    names = np.repeat(np.arange(problems), samples).tolist()

    def draw(generator: np.random.Generator, seed: int) -> tuple[Interval, float]:
        means = generator.gamma(2, 20, problems)
        values = generator.gamma(3, means[:, None] / 3, (problems, samples)).ravel()
        if problems < 20:
            return _of(mean_interval(values, names)[0]), 40.0
        return cluster_bootstrap(values, names, expanded=True, resamples=RESAMPLES, seed=seed), 40.0

    return draw


def pairs(problems: int, chances: tuple[float, float]) -> Draw:
    """Single answers of two models."""

    def draw(generator: np.random.Generator, seed: int) -> tuple[Interval, float]:
        change = generator.choice([1, -1, 0], size=problems, p=[*chances, 1 - sum(chances)])
        before, after = (change < 0).astype(float), (change > 0).astype(float)
        return paired_interval(before, after, resamples=RESAMPLES, seed=seed)[0], chances[0] - chances[1]

    return draw


def seeds(count: int, *, resampled: bool = False) -> Draw:
    """A number of training runs with normal results."""

    def draw(generator: np.random.Generator, seed: int) -> tuple[Interval, float]:
        values = generator.normal(size=count)
        return (bootstrap_interval(values, resamples=RESAMPLES, seed=seed) if resampled else t_interval(values)), 0.0

    return draw


def wilson(problems: int) -> tuple[float, float, float]:
    """Mean, least and greatest coverage of Wilson's interval in per cent over shares from 0.05 to 0.95, exactly."""
    found = [wilson_interval(right, problems) for right in range(problems + 1)]
    counts = np.arange(problems + 1)
    ways = np.array([float(math.comb(problems, right)) for right in counts.tolist()])
    low, high = np.array([i.low for i in found]), np.array([i.high for i in found])
    covered = [
        float(np.sum(ways * p**counts * (1 - p) ** (problems - counts) * ((low <= p) & (p <= high))))
        for p in np.linspace(0.05, 0.95, 901)
    ]
    return 100 * float(np.mean(covered)), 100 * min(covered), 100 * max(covered)


def _of(interval: Interval | None) -> Interval:
    assert interval is not None
    return interval


def coverage(draw: Draw, count: int, seed: int = 0) -> float:
    """Share of `count` intervals that cover the truth, in per cent."""
    generator = np.random.default_rng(seed)
    found = [draw(generator, number) for number in range(count)]
    return 100 * float(np.mean([one.low <= truth <= one.high for one, truth in found]))


def main(arguments: Sequence[str]) -> None:
    """Print every table."""
    count = int(arguments[0]) if arguments else 2000
    print(f"{count} simulations a figure, intervals of 95 %")
    for n in (50, 100, 300):
        print(f"wilson {n}: mean, least, greatest", *(f"{value:.1f}" for value in wilson(n)))
    for beta in BETAS:
        cells = {(n, k): coverage(shares(n, k, beta), count) for n in (50, 100) for k in (1, 8)}
        plain = coverage(shares(50, 8, beta, resampled=True), count)
        print("shares, beta", beta, *(f"{n} x {k}: {v:.1f}" for (n, k), v in cells.items()), f"bootstrap: {plain:.1f}")
    for n in (10, 50, 100):
        print("lengths", n, *(f"x {k}: {coverage(lengths(n, k), count):.1f}" for k in (1, 8)))
    for change in CHANGES:
        print("pairs", change, *(f"{n}: {coverage(pairs(n, change), count):.1f}" for n in (50, 100, 300)))
    for n in (3, 5, 8):
        print(
            f"seeds {n}: t {coverage(seeds(n), count):.1f}, bootstrap {coverage(seeds(n, resampled=True), count):.1f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
