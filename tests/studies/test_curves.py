"""What a learning curve comes to, on curves made by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from burnish.studies.comparison.curves import at, below, measures, ranks


def test_the_measures_of_a_curve_that_rises_and_falls() -> None:
    found = measures([0, 25, 50, 75, 100], [0.2, 0.4, 0.8, 0.6, 0.5], 100, last=2)
    assert (found.start, found.best, found.last) == (0.2, 0.8, 0.5)
    assert found.last_mean == pytest.approx(0.55)
    assert found.area == pytest.approx((0.3 + 0.6 + 0.7 + 0.55) / 4)
    assert found.drawdown == pytest.approx(0.3)
    assert not found.collapsed
    assert found.gains["0.5"] == pytest.approx(0.6) and found.gains["1"] == pytest.approx(0.3)
    assert found.gains["2"] is None


def test_what_lies_beyond_the_budget_counts_for_more_time_and_for_stability_alone() -> None:
    short = measures([0, 50, 100], [0.2, 0.4, 0.6], 100)
    longer = measures([0, 50, 100, 200], [0.2, 0.4, 0.6, 0.1], 100)
    for name in ("best", "last", "last_mean", "area"):
        assert getattr(longer, name) == getattr(short, name), name
    assert longer.gains["2"] == pytest.approx(-0.1)
    assert longer.drawdown == pytest.approx(0.5) and longer.collapsed
    assert short.drawdown == 0 and not short.collapsed


def test_the_area_is_that_of_straight_lines_whatever_the_distances() -> None:
    assert measures([0, 10, 100], [0.0, 1.0, 1.0], 100).area == pytest.approx(0.95)
    assert measures([0, 90, 100], [0.0, 0.0, 1.0], 100).area == pytest.approx(0.05)


@pytest.mark.parametrize(("last", "collapsed"), [(0.41, False), (0.39, True)])
def test_a_curve_that_ends_below_half_of_its_best_has_collapsed(last: float, collapsed: bool) -> None:
    assert measures([0, 1, 2], [0.3, 0.8, last], 2).collapsed is collapsed


@pytest.mark.parametrize(("last", "collapsed"), [(0.56, False), (0.54, True)])
def test_a_curve_that_ends_below_its_start_by_more_than_is_of_interest_has_collapsed(
    last: float, collapsed: bool
) -> None:
    assert measures([0, 1, 2], [0.6, 0.65, last], 2, smallest=0.05).collapsed is collapsed


def test_a_gain_between_two_evaluations_lies_on_their_line() -> None:
    assert measures([0, 40, 80, 100], [0.0, 0.4, 0.4, 0.9], 100).gains["0.5"] == pytest.approx(0.4)
    assert measures([0, 30, 90], [0.1, 0.4, 1.0], 90).gains["0.5"] == pytest.approx(0.45)


def test_a_curve_that_misses_the_budget_by_what_is_allowed_has_spent_it() -> None:
    found = measures([0, 60, 101], [0.1, 0.2, 0.3], 100, slack=0.02)
    assert found.last == 0.3 and found.gains["1"] is not None
    assert measures([0, 60, 101], [0.1, 0.2, 0.3], 100).last == 0.2
    assert measures([0, 60, 99], [0.1, 0.2, 0.3], 100, slack=0.02).gains["1"] == pytest.approx(0.2)
    assert measures([0, 60, 97], [0.1, 0.2, 0.3], 100, slack=0.02).gains["1"] is None


@pytest.mark.parametrize(
    ("spent", "values"),
    [([0], [0.1]), ([0, 1], [0.1]), ([0, 1], [0.1, float("nan")]), ([0, 1, 1], [0.1, 0.2, 0.3])],
)
def test_what_is_no_curve_is_refused(spent: list[float], values: list[float]) -> None:
    with pytest.raises(ValueError, match=r"evaluation"):
        measures(spent, values, 1)


def test_values_at_other_places_and_the_share_below_another_curve() -> None:
    own = at([0, 10, 20], [0.0, 0.2, 0.6], [0, 5, 20, 25])
    assert own == [0.0, pytest.approx(0.1), 0.6, None]
    assert below(own, [0.0, 0.2, 0.6, 0.9]) == pytest.approx(0.75)  # below at one, equal at one, missing at the third
    assert below([0.1], [0.2]) is None


def test_ranks_share_what_is_equal() -> None:
    assert ranks({"a": 0.1, "b": 0.9, "c": 0.9}) == {"a": 3.0, "b": 1.5, "c": 1.5}


def test_random_curves_agree_with_what_the_definitions_say() -> None:
    draw = np.random.default_rng(3)
    for _ in range(50):
        y = draw.random(7)
        found = measures(list(range(7)), y.tolist(), 6)
        falls = [max(y[: i + 1]) - y[i] for i in range(7)]
        assert found.drawdown == pytest.approx(max(falls)) and found.best == y.max() and found.last == y[-1]
        assert found.area == pytest.approx(sum((a + b) / 2 for a, b in pairwise(y)) / 6)
