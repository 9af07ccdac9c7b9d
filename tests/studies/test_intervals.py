"""Intervals: by the formula, against scipy, and how often they cover the truth in seeded simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from burnish.studies import (
    cluster_bootstrap,
    cluster_wilson,
    mcnemar,
    mean_interval,
    paired_interval,
    pass_all_k,
    t_interval,
    wilson_interval,
)
from burnish.studies.statistics import bootstrap_interval, cluster_error
from burnish.studies.student import t_quantile

SIMULATIONS = 2000
SLACK = 0.02
"""The target of coverage: within 2 points of 95 %."""


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9.5, 19, 200, 10_000])
def test_t_quantiles_equal_scipys(freedom: float) -> None:
    for probability in (1e-6, 0.005, 0.025, 0.3, 0.5, 0.9, 0.975, 0.9999):
        expected = stats.t.ppf(probability, freedom)
        assert t_quantile(probability, freedom) == pytest.approx(expected, rel=1e-7, abs=1e-7)
    with pytest.raises(ValueError, match="freedom > 0"):
        t_quantile(0.5, 0)


def test_the_t_interval_equals_scipys_and_takes_clusters() -> None:
    values = np.random.default_rng(0).normal(size=5)
    expected = stats.t.interval(0.9, 4, values.mean(), stats.sem(values))
    got = t_interval(values, confidence=0.9)
    assert (got.low, got.high) == pytest.approx(expected)
    twice = t_interval(np.repeat(values, 2), np.repeat(np.arange(5), 2).tolist(), confidence=0.9)
    assert (twice.low, twice.high) == pytest.approx(expected)
    with pytest.raises(ValueError, match="one cluster"):
        t_interval([1.0, 2.0], ["a", "a"])


def test_the_error_of_uneven_clusters_is_the_linearised_one_of_a_ratio() -> None:
    values, clusters = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0], ["a", "a", "a", "b", "c", "c"]
    residuals = [1 - 3 * 4 / 6, 1 - 4 / 6, 2 - 2 * 4 / 6]
    assert cluster_error(values, clusters) == pytest.approx(math.sqrt(3 / 2 * sum(r * r for r in residuals)) / 6)


def test_an_expanded_bootstrap_of_few_values_is_wider_and_of_many_alike() -> None:
    few, many = np.random.default_rng(1).normal(size=6), np.random.default_rng(2).normal(size=2000)
    plain, wider = bootstrap_interval(few), bootstrap_interval(few, method="expanded")
    assert wider.high - wider.low > 1.2 * (plain.high - plain.low)
    plain, wider = bootstrap_interval(many), bootstrap_interval(many, method="expanded")
    assert wider.high - wider.low == pytest.approx(plain.high - plain.low, rel=0.02)
    names = list(range(6))
    assert cluster_bootstrap(few, names, expanded=True) == bootstrap_interval(few, method="expanded")


def test_each_number_gets_the_interval_of_its_kind() -> None:
    generator = np.random.default_rng(0)
    assert mean_interval([1.0, 0.0, 1.0], ["a", "b", "c"]) == (wilson_interval(2, 3), "wilson")
    shares = generator.random(30)
    assert mean_interval(shares, list(range(30))) == (cluster_wilson(shares, list(range(30))), "cluster wilson")
    lengths = 10 * generator.random(30)
    assert mean_interval(lengths[:8], list(range(8))) == (t_interval(lengths[:8]), "t")
    expected = cluster_bootstrap(lengths, list(range(30)), expanded=True, seed=5)
    assert mean_interval(lengths, list(range(30)), seed=5) == (expected, "cluster bootstrap")
    one, method = mean_interval([1.0, 0.0], ["a", "a"])
    assert one is not None and (one.low, one.high, method) == (0.0, 1.0, "bounds")
    assert mean_interval([7.0, 9.0], ["a", "a"]) == (None, "none")


def test_one_answer_to_a_problem_makes_the_cluster_interval_wilsons_with_a_t_quantile() -> None:
    values = [1.0] * 30 + [0.0] * 30
    got = cluster_wilson(values, list(range(60)))
    plain = wilson_interval(30, 60)
    assert got.estimate == plain.estimate
    assert got.high - got.low == pytest.approx(plain.high - plain.low, rel=0.03)
    copies = cluster_wilson(np.repeat(values, 8), np.repeat(np.arange(60), 8).tolist())
    assert (copies.low, copies.high) == pytest.approx((got.low, got.high))
    alike = cluster_wilson([1.0, 0.0] * 60, np.repeat(np.arange(60), 2).tolist())
    assert (alike.low, alike.high) == pytest.approx((got.low, got.high)), "never worth less than its problems"
    with pytest.raises(ValueError, match="between 0 and 1"):
        cluster_wilson([2.0, 0.0], ["a", "b"])


# ---------------------------------------------------------------- coverage


@pytest.mark.parametrize("problems", [50, 100])
@pytest.mark.parametrize(
    ("samples", "beta"),
    [(1, (0.5, 0.5)), (1, (1, 4)), (4, (0.5, 0.5)), (4, (2, 2)), (4, (4, 1)), (16, (0.2, 1.8)), (8, (0.05, 0.95))],
)
def test_the_interval_of_a_share_covers_within_two_points_of_what_it_says(
    problems: int, samples: int, beta: tuple[float, float]
) -> None:
    """Problems differ in their chance by a beta distribution: from all alike to solved always or never."""
    generator = np.random.default_rng(0)
    truth = beta[0] / sum(beta)
    names = np.repeat(np.arange(problems), samples).tolist()
    hits = []
    for _ in range(SIMULATIONS):
        chances = generator.beta(*beta, problems)
        answers = (generator.random((problems, samples)) < chances[:, None]).astype(float).ravel()
        got, _ = mean_interval(answers, names)
        hits.append(got.low <= truth <= got.high)  # type: ignore[union-attr]
    assert abs(np.mean(hits) - 0.95) < SLACK + 2 * math.sqrt(0.95 * 0.05 / SIMULATIONS)


@pytest.mark.parametrize("problems", [50, 100, 300])
def test_wilsons_interval_covers_within_two_points_on_average_and_hardly_anywhere_misses_by_more(problems: int) -> None:
    """Exactly, over shares from 0.05 to 0.95; since right answers are whole numbers, coverage jumps between them."""
    found = [wilson_interval(right, problems) for right in range(problems + 1)]
    low, high = np.array([i.low for i in found]), np.array([i.high for i in found])
    shares = np.linspace(0.05, 0.95, 181)
    exact = np.array(
        [stats.binom.pmf(np.arange(problems + 1), problems, p) @ ((low <= p) & (p <= high)) for p in shares]
    )
    assert abs(exact.mean() - 0.95) < 0.002 and exact.min() > 0.925 and exact.max() < 0.98
    assert np.mean(abs(exact - 0.95) < SLACK) > 0.95


def test_the_interval_of_a_mean_over_few_seeds_covers_and_a_percentile_bootstrap_does_not() -> None:
    generator = np.random.default_rng(0)
    for seeds in (3, 5):
        values = generator.normal(size=(SIMULATIONS, seeds))
        hits = [got.low <= 0 <= got.high for got in (t_interval(row) for row in values)]
        assert abs(np.mean(hits) - 0.95) < SLACK
        plain = [bootstrap_interval(row, resamples=200, seed=i) for i, row in enumerate(values[:500])]
        assert np.mean([got.low <= 0 <= got.high for got in plain]) < 0.88


@pytest.mark.parametrize("chances", [(0.3, 0.1), (0.1, 0.1), (0.1, 0.0)])
def test_the_paired_interval_covers_within_two_points_of_what_it_says(chances: tuple[float, float]) -> None:
    """Of 100 problems some improved and some worsened, with these chances."""
    generator = np.random.default_rng(1)
    count, hits = 600, 0
    for seed in range(count):
        change = generator.choice([1, -1, 0], size=100, p=[*chances, 1 - sum(chances)])
        before, after = (change < 0).astype(float), (change > 0).astype(float)
        got, _ = paired_interval(before, after, resamples=400, seed=seed)
        hits += got.low <= chances[0] - chances[1] <= got.high
    assert abs(hits / count - 0.95) < SLACK + 2 * math.sqrt(0.95 * 0.05 / count)


# ---------------------------------------------------------------- exact counts


def test_pass_all_k_is_the_share_of_subsets_that_are_all_right() -> None:
    for samples in range(1, 8):
        for correct in range(samples + 1):
            right = [i < correct for i in range(samples)]
            for k in range(1, samples + 1):
                subsets = [all(s) for s in itertools.combinations(right, k)]
                assert pass_all_k(samples, correct, k) == pytest.approx(np.mean(subsets), abs=1e-12)
    with pytest.raises(ValueError, match="k = 3"):
        pass_all_k(2, 1, 3)


def test_mcnemar_is_the_sum_over_splits_at_least_as_uneven() -> None:
    for improved in range(12):
        for worsened in range(12):
            changed = improved + worsened
            expected = stats.binomtest(improved, changed).pvalue if changed else 1.0
            assert mcnemar(improved, worsened) == pytest.approx(expected, abs=1e-12)
    assert mcnemar(8, 1) == pytest.approx(2 * (1 + 9) / 2**9)
    assert 0 < mcnemar(1500, 100) < 1e-300 or mcnemar(1500, 100) == 0
    with pytest.raises(ValueError, match="negative"):
        mcnemar(-1, 2)


def test_paired_differences_get_the_interval_of_their_kind() -> None:
    few = paired_interval([0, 0, 1, 0.0], [1, 0, 1, 0.0])
    assert few[1] == "paired shares" and few[0].estimate == 0.25
    up, down = 2 / 6, 1 / 6  # one more problem that improved, one that worsened, among two more
    half = 1.959964 * math.sqrt((up + down - (up - down) ** 2) / 6)
    assert (few[0].low, few[0].high) == pytest.approx((up - down - half, up - down + half), abs=1e-6)
    shares = np.random.default_rng(0).random((2, 12))
    assert paired_interval(*shares) == (t_interval(shares[1] - shares[0]), "paired t")
    assert paired_interval(*np.random.default_rng(0).random((2, 40)))[1] == "paired bootstrap"
    assert paired_interval([0.5], [0.75])[1] == "bounds"
    with pytest.raises(ValueError, match="2 before, 3 after"):
        paired_interval([0, 1], [0, 1, 1])
