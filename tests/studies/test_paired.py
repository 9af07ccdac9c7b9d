"""Paired differences over seeds against scipy, Holm's correction by hand, and the coverage of the interval."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from burnish.studies.comparison.paired import holm, quantile, student, t_interval, t_test


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 9, 200])
def test_students_t_is_scipys(freedom: int) -> None:
    for t in (0.0, 0.3, 1.0, 2.5, 12.0):
        assert student(t, freedom) == pytest.approx(2 * scipy.stats.t.sf(t, freedom), abs=1e-12)
        assert student(-t, freedom) == student(t, freedom)
    for confidence in (0.5, 0.95, 0.99):
        assert quantile(confidence, freedom) == pytest.approx(scipy.stats.t.ppf((1 + confidence) / 2, freedom))


def test_the_interval_and_the_p_value_are_scipys() -> None:
    values = [0.02, 0.05, -0.01, 0.04, 0.03]
    expected = scipy.stats.ttest_1samp(values, 0.0)
    low, high = expected.confidence_interval()
    found = t_interval(values)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.estimate == pytest.approx(0.026)
    assert t_test(values) == pytest.approx(expected.pvalue)


def test_values_that_are_all_alike() -> None:
    assert t_test([0.5, 0.5, 0.5]) == 0.0 and t_test([0.0, 0.0]) == 1.0
    assert (t_interval([0.25, 0.25]).low, t_interval([0.25, 0.25]).high) == (0.25, 0.25)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    draws = np.random.default_rng(0).normal(0.1, 0.05, size=(4000, 5))
    covered = [found.low <= 0.1 <= found.high for found in map(t_interval, draws)]
    assert abs(np.mean(covered) - 0.95) < 0.01


@pytest.mark.parametrize("values", [[], [0.1], [0.1, float("nan")]])
def test_too_few_or_missing_values_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="two values or more"):
        t_interval(values)


def test_holm_by_hand_and_never_below_what_came_before() -> None:
    assert holm([0.01, 0.02, 0.03, 0.04]) == pytest.approx([0.04, 0.06, 0.06, 0.06])
    assert holm([0.5, 0.001]) == pytest.approx([0.5, 0.002])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
