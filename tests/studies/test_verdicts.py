"""Comparisons of hand-made cells: the verdict rule, scopes, pairing, what is left out, and the table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burnish.methods.evidence import Evidence
from burnish.studies.comparison.results import evidence_of, results_of
from burnish.studies.comparison.series import Key, Series, shares_of
from burnish.studies.comparison.spec import StudySpec
from burnish.studies.comparison.table import markdown
from burnish.studies.comparison.verdicts import Comparison, comparisons
from tests.studies.hand_made import by_hand, cell, flat_and_rising

PLAIN = [0.50, 0.54, 0.52]


def overall(spec: StudySpec, series: dict[Key, Series]) -> Comparison:
    """The comparison of methods over all tasks."""
    [found] = [one for one in comparisons(spec, series) if one.family == "methods"]
    return found


@pytest.mark.parametrize(
    ("new", "verdict", "reason"),
    [
        ([0.60, 0.65, 0.61], "shown", ""),
        ([0.40, 0.43, 0.43], "opposite", ""),
        ([0.70, 0.44, 0.60], "not shown", ""),
        ([0.505, 0.546, 0.525], "not shown", "smaller than 0.02 either way"),
        ([0.515, 0.556, 0.533], "not shown", "smaller than 0.02 either way"),
        ([0.512, 0.556, 0.54], "not shown", "there, but smaller than 0.02"),
    ],
)
def test_the_verdict_follows_from_the_interval_over_paired_seeds(new: list[float], verdict: str, reason: str) -> None:
    spec = by_hand()
    found = overall(spec, flat_and_rising(spec, new, PLAIN))
    assert (found.verdict, found.reason) == (verdict, reason)
    assert found.interval is not None
    assert found.interval.estimate == pytest.approx(sum(new) / 3 - sum(PLAIN) / 3)


def test_seeds_are_paired_so_what_they_share_cancels() -> None:
    spec = by_hand()
    far = [0.4, 0.5, 0.6]
    found = overall(spec, flat_and_rising(spec, [v + 0.05 for v in far], far))
    assert found.verdict == "shown" and found.interval is not None
    assert found.interval.high - found.interval.low < 1e-3


def test_where_less_is_better_the_sign_turns() -> None:
    spec = by_hand(primary={"metric": "last", "direction": "lower", "smallest": 0.02, "control": "plain"})
    assert overall(spec, flat_and_rising(spec, [0.40, 0.43, 0.43], PLAIN)).verdict == "shown"


def test_a_control_that_does_not_move_or_leaves_no_room_gives_no_verdict() -> None:
    spec = by_hand()
    still = overall(spec, flat_and_rising(spec, [0.4, 0.5, 0.45], [0.21, 0.19, 0.2]))
    assert still.verdict == "untested" and still.reason.startswith("the control does not move from its start")
    full = overall(spec, flat_and_rising(spec, [0.99, 0.99, 0.98], [0.95, 0.96, 0.94]))
    assert (full.verdict, full.reason) == ("untested", "the control ends at 0.950, which leaves no room")


def test_a_study_that_is_not_whole_gives_no_verdict() -> None:
    spec = by_hand()
    series = flat_and_rising(spec, [0.60, 0.65, 0.61], PLAIN)
    del series["new", "S", "left", 2]
    found = overall(spec, series)
    assert (found.verdict, found.reason) == ("untested", "2 of 3 seeds are done")
    by_task = {one.task: one for one in comparisons(spec, series) if one.family == "methods by task"}
    assert by_task["left"].reason == "2 of 3 seeds are done" and len(by_task["right"].differences) == 3


def test_a_cell_that_spent_another_budget_is_marked_and_not_compared() -> None:
    spec = by_hand(budget={"unit": "steps", "amount": 10, "beyond": 2, "unequal": True})
    series = flat_and_rising(spec, [0.60, 0.65, 0.61], PLAIN)
    key, other = cell(spec, "new", "left", 1, {"l": [0.2, 0.3, 0.9], "r": [0.2, 0.2, 0.2]}, off=1.4)
    series[key] = other
    found = overall(spec, series)
    assert (found.verdict, found.reason) == ("untested", "1 cells spent another budget")
    text = markdown(results_of(spec, series, "burnish study x.yaml"))
    assert "1 spent another budget" in text and "| new ! |" in text and "| plain ! |" not in text


def test_comparisons_of_one_family_are_corrected_for_their_number() -> None:
    spec = by_hand()
    new = [0.53, 0.58, 0.54]  # alone p is 0.035, in a family of two 0.07
    series = flat_and_rising(spec, new, PLAIN)
    alone = overall(spec, series)
    family = [one for one in comparisons(spec, series) if one.family == "methods by task"]
    assert alone.verdict == "shown" and alone.p is not None and alone.p < 0.05
    assert [one.p for one in family] == [pytest.approx(2 * alone.p)] * 2
    assert [one.reason for one in family] == ["not after the correction for several comparisons"] * 2


def test_scopes_take_their_categories() -> None:
    spec = by_hand()
    _, series = cell(spec, "new", "left", 0, {"l": [0.2, 0.5, 0.8], "r": [0.3, 0.2, 0.1]})
    assert series.curve("in") == [0.2, 0.5, 0.8]
    assert series.curve("across") == [0.3, 0.2, 0.1]
    assert series.curve("all") == pytest.approx([0.25, 0.35, 0.45])
    assert series.curve("lowest") == pytest.approx([0.0, -0.1, -0.2])
    everything = by_hand(tasks={"both": {"set": {}}})
    _, mixed = cell(everything, "new", "both", 0, {"l": [0.2, 0.5, 0.8], "r": [0.3, 0.2, 0.1]})
    assert mixed.curve("across") is None and mixed.curve("in") == mixed.curve("all")


def test_claims_compare_any_two_sides() -> None:
    claim: dict[str, Any] = {
        "claim": "left teaches more about the other side", "better": {"tasks": ["left"]}, "than": {"tasks": ["right"]},
        "scope": "across", "metric": "area", "smallest": 0.5,
    }  # fmt: skip
    spec = by_hand(claims=[claim])
    series = flat_and_rising(spec, [0.6, 0.65, 0.61], PLAIN)
    for seed in range(3):
        for method in ("new", "plain"):
            key, other = cell(spec, method, "left", seed, {"l": [0.2, 0.3, 0.6], "r": [0.2, 0.4, 0.6 + seed / 100]})
            series[key] = other
    [found] = [one for one in comparisons(spec, series) if one.family == "claims"]
    other_areas = [0.2 * 0.5 + (0.2 + 0.1 + seed / 100) / 2 * 0.5 for seed in range(3)]
    areas = [0.3 * 0.5 + (0.4 + 0.6 + seed / 100) / 2 * 0.5 for seed in range(3)]
    assert found.differences == pytest.approx([a - b for a, b in zip(areas, other_areas, strict=True)])
    assert (found.verdict, found.reason) == ("not shown", "smaller than 0.5 either way")


def test_the_results_hold_curves_ranks_cost_and_what_finals_hide() -> None:
    spec = by_hand(seeds=2)
    series: dict[Key, Series] = {}
    for seed in range(2):
        for task, own, other in (("left", "l", "r"), ("right", "r", "l")):
            for method, curve in (("new", [0.2, 0.8, 0.5, 0.3, 0.1]), ("plain", [0.2, 0.3, 0.6, 0.6, 0.6])):
                key, one = cell(spec, method, task, seed, {own: curve, other: [0.2] * 5})
                series[key] = one
    found = results_of(spec, series, "burnish study x.yaml")
    assert shares_of(spec) == found["shares"] == [0.0, 0.5, 1.0, 1.5, 2.0]
    new = next(r for r in found["rows"] if (r["task"], r["method"]) == ("left", "new"))
    assert new["in"]["curve"] == pytest.approx([0.2, 0.8, 0.5, 0.3, 0.1])
    low, high = new["in"]["band"]
    assert low == pytest.approx(new["in"]["curve"]) and high == pytest.approx(low)  # its seeds are all alike
    assert (new["in"]["best"], new["in"]["last"]["mean"], new["in"]["collapsed"]) == (0.8, 0.5, 2)
    assert new["in"]["drawdown"] == pytest.approx(0.7)
    assert new["in"]["gains"] == pytest.approx({"0.5": 0.6, "1": 0.3, "2": -0.1})
    assert new["lowest"]["last"]["mean"] == 0.0  # the category that was not trained on did not rise
    assert new["below_control"] == pytest.approx(0.75)
    assert new["cost"]["flops"] == 10**7 and new["cost"]["flops_per_point"] == pytest.approx(10**7 / 30)
    assert [rank["agree"] for rank in found["ranks"]] == [False, False]
    assert found["ranks"][0]["last"] == {"plain": 1.0, "new": 2.0}
    assert found["ranks"][0]["area"] == {"new": 1.0, "plain": 2.0}
    text = markdown(json.loads(json.dumps(found)))
    assert "in another order in 2 of 2 places" in text
    assert "| S | left | new | 0.800 | 0.500 |" in text and "2 of 2" in text


def test_evidence_is_what_the_adviser_reads() -> None:
    spec = by_hand(row="study-132")
    series = flat_and_rising(spec, [0.60, 0.65, 0.61], PLAIN)
    found = evidence_of(spec, series, results_of(spec, series, "burnish study x.yaml"), {"S": "nursery:S"})
    [entry] = [Evidence.model_validate(json.loads(json.dumps(one))) for one in found]
    assert (entry.verdict, entry.control, entry.seeds, entry.study) == ("shown", "plain", 3, "by-hand")
    assert entry.cost is not None and set(entry.cost.counts) == {"policy", "run"}
