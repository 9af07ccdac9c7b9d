"""Intervals against exhaustive enumeration and scipy; every one a function of its seed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from burnish.studies.statistics import (
    bootstrap_interval,
    cluster_bootstrap,
    paired_bootstrap,
    pass_at_k,
    wilson_interval,
)


def _bounds(interval: object) -> tuple[float, float]:
    return interval.low, interval.high  # type: ignore[attr-defined]


def test_the_percentile_bootstrap_equals_the_enumeration_of_all_resamples() -> None:
    values = np.array([0.0, 1.0, 3.0, 7.0, 20.0])
    means = [np.mean(values[list(index)]) for index in itertools.product(range(5), repeat=5)]
    exact = np.quantile(means, [0.1, 0.9])
    got = bootstrap_interval(values, confidence=0.8, resamples=200_000, seed=3)
    assert got.estimate == 6.2
    assert _bounds(got) == pytest.approx(exact, abs=0.11)  # the means lie 0.2 apart and more
    medians = [np.median(values[list(index)]) for index in itertools.product(range(5), repeat=5)]
    got = bootstrap_interval(values, np.median, confidence=0.8, resamples=50_000)
    assert _bounds(got) == tuple(np.quantile(medians, [0.1, 0.9]))


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("statistic", [np.mean, np.var])
def test_the_bootstrap_agrees_with_scipy_on_skewed_values(method: str, statistic: object) -> None:
    values = np.random.default_rng(0).exponential(size=40)
    scipys = stats.bootstrap(
        (values,), statistic, method=method.replace("bca", "BCa"), n_resamples=100_000, rng=np.random.default_rng(1)
    ).confidence_interval
    got = bootstrap_interval(values, statistic, method=method, resamples=100_000, seed=2)  # type: ignore[arg-type]
    assert _bounds(got) == pytest.approx((scipys.low, scipys.high), rel=0.02, abs=0.01)


def test_bca_differs_from_the_percentile_where_values_are_skewed() -> None:
    values = np.random.default_rng(0).exponential(size=40)
    plain, corrected = bootstrap_interval(values), bootstrap_interval(values, method="bca")
    assert corrected.low > plain.low + 0.01 and corrected.high > plain.high + 0.02


def test_bca_of_equal_values_is_their_value() -> None:
    assert _bounds(bootstrap_interval([2.0] * 5, method="bca")) == (2.0, 2.0)
    assert _bounds(bootstrap_interval([2.0], method="bca")) == (2.0, 2.0)


def test_the_paired_bootstrap_equals_the_enumeration_of_all_pairs() -> None:
    before, after = np.array([0, 0, 1, 1, 0.0]), np.array([1, 1, 1, 0, 1.0])
    differences = [np.mean((after - before)[list(index)]) for index in itertools.product(range(5), repeat=5)]
    got = paired_bootstrap(before, after, resamples=100_000)
    assert got.estimate == pytest.approx(0.4)
    assert _bounds(got) == pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])), abs=1e-12)


def test_pairing_is_tighter_than_two_samples_where_items_agree() -> None:
    generator = np.random.default_rng(0)
    before = generator.integers(0, 2, 300).astype(float)
    after = np.where(generator.random(300) < 0.1, 1.0, before)
    paired = paired_bootstrap(before, after)
    shuffled = paired_bootstrap(before, generator.permutation(after))
    assert paired.estimate == pytest.approx(shuffled.estimate)
    assert paired.excludes_zero and paired.high - paired.low < 0.5 * (shuffled.high - shuffled.low)


def test_the_interval_covers_as_often_as_it_says() -> None:
    generator = np.random.default_rng(5)
    hits = 0
    for seed in range(300):
        after = generator.random(100) < 0.7
        before = generator.random(100) < 0.5
        got = paired_bootstrap(before, after, resamples=500, seed=seed)
        hits += got.low <= 0.2 <= got.high
    assert 0.91 <= hits / 300 <= 0.98


def test_clusters_of_one_are_independent_values_and_copies_add_nothing() -> None:
    values = np.random.default_rng(1).random(60)
    alone = bootstrap_interval(values, seed=4)
    assert cluster_bootstrap(values, list(range(60)), seed=4) == alone
    copied = cluster_bootstrap(np.repeat(values, 8), np.repeat(np.arange(60), 8).tolist(), seed=4)
    assert _bounds(copied) == pytest.approx(_bounds(alone), abs=1e-12)
    naive = bootstrap_interval(np.repeat(values, 8), seed=4)
    assert naive.high - naive.low < 0.5 * (copied.high - copied.low)


def test_uneven_clusters_equal_their_enumeration() -> None:
    values, clusters = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0], ["a", "a", "a", "b", "c", "c"]
    sums, sizes = np.array([1, 1, 2]), np.array([3, 1, 2])
    draws = [sums[list(i)].sum() / sizes[list(i)].sum() for i in itertools.product(range(3), repeat=3)]
    got = cluster_bootstrap(values, clusters, confidence=0.8, resamples=50_000)
    assert _bounds(got) == pytest.approx(tuple(np.quantile(draws, [0.1, 0.9])), abs=0.09)
    assert got.estimate == pytest.approx(4 / 6)


@given(st.integers(1, 2000), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_equals_scipy(count: int, data: st.DataObject, confidence: float) -> None:
    successes = data.draw(st.integers(0, count))
    expected = stats.binomtest(successes, count).proportion_ci(confidence, method="wilson")
    got = wilson_interval(successes, count, confidence=confidence)
    assert _bounds(got) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= got.low <= got.estimate <= got.high <= 1


def test_pass_at_k_is_the_share_of_subsets_with_a_right_sample() -> None:
    for samples in range(1, 8):
        for correct in range(samples + 1):
            right = [i < correct for i in range(samples)]
            for k in range(1, samples + 1):
                subsets = [any(s) for s in itertools.combinations(right, k)]
                assert pass_at_k(samples, correct, k) == pytest.approx(np.mean(subsets), abs=1e-12)
    assert 0 < pass_at_k(10_000, 1, 5_000) < 1


def test_everything_is_a_function_of_its_seed() -> None:
    values = np.random.default_rng(0).random(30)
    assert bootstrap_interval(values, seed=7) == bootstrap_interval(values, seed=7)
    assert bootstrap_interval(values, seed=7) != bootstrap_interval(values, seed=8)
    many = np.random.default_rng(0).random(5_000)  # more resampled values than are held at a time
    assert bootstrap_interval(many, resamples=900, seed=7) == bootstrap_interval(many, resamples=900, seed=7)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")], [[1.0]]])
def test_missing_values_are_refused(values: list) -> None:
    with pytest.raises(ValueError, match="at least one value|missing or infinite"):
        bootstrap_interval(values)


def test_wrong_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="the same items: 2 before, 3 after"):
        paired_bootstrap([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="3 of 2"):
        wilson_interval(3, 2)
    with pytest.raises(ValueError, match="k = 3"):
        pass_at_k(2, 1, 3)
    with pytest.raises(ValueError, match="as many cluster names"):
        cluster_bootstrap([1.0, 2.0], ["a"])
    with pytest.raises(ValueError, match="confidence"):
        wilson_interval(1, 2, confidence=95)
