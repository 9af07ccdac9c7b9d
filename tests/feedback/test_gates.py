"""Gates: reward = sum of w_k c_k over what no closed gate covers, and what cannot be known is missing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.feedback.spec import FeedbackSpec
from burnish.traces import Status, Verdict
from tests.feedback.judging import feedback, judged

NAMES: tuple[str, ...] = ("a", "b", "c")


def given(name: str, **spec: Any) -> dict[str, Any]:
    """A component whose value stands in the text: "a=1 b=0.5" and so on; "?" is missing."""

    def function(completions: list[str]) -> list[float | None]:
        values = [dict(part.split("=") for part in text.split())[name] for text in completions]
        return [None if value == "?" else float(value) for value in values]

    return {"kind": "function", "function": function, "name": name, **spec}


def judge(rewards: list[dict[str, Any]], gates: list[dict[str, Any]], **values: Any) -> Verdict:
    text = " ".join(f"{name}={value}" for name, value in values.items())
    return judged({"rewards": rewards, "gates": gates}, {}, [text])[0]


def gate(component: str, least: float = 1.0, *gates: str) -> dict[str, Any]:
    return {"component": component, "least": least, "gates": list(gates)}


def test_below_its_gate_the_whole_reward_is_0_and_says_so() -> None:
    rewards, gates = [given("a", weight=2.0), given("b")], [gate("b", 0.5)]
    assert judge(rewards, gates, a=3, b=0.5) == Verdict(6.5, components={"a": 3.0, "b": 0.5})
    closed = judge(rewards, gates, a=3, b=0.4)
    assert (closed.reward, closed.status, closed.components) == (0.0, Status.OK, {"a": 3.0, "b": 0.4})
    assert closed.reason == "gate 'b' not reached (0.4 < 0.5)" and closed.evidence == {"kinds": {"b": "gated"}}


def test_a_gate_that_names_components_takes_those_away_and_no_other() -> None:
    rewards, gates = [given("a"), given("b", weight=10.0), given("c", weight=100.0)], [gate("c", 1.0, "b")]
    assert judge(rewards, gates, a=1, b=1, c=1).reward == 111.0
    assert judge(rewards, gates, a=1, b=1, c=0.5).reward == 51.0  # the gate's own component still counts


def test_several_gates_and_a_gate_on_a_gate() -> None:
    rewards, gates = [given(name) for name in NAMES], [gate("a", 1.0, "b"), gate("b", 1.0, "c")]
    assert judge(rewards, gates, a=1, b=1, c=1).reward == 3.0
    assert judge(rewards, gates, a=1, b=0, c=1).reward == 1.0
    assert judge(rewards, gates, a=0, b=1, c=1).reward == 1.0  # b counts nothing, and yet it opens c
    assert judge(rewards, gates, a=0, b=0, c=1).reward == 0.0


def test_a_gate_of_weight_0_only_gates() -> None:
    rewards = [given("a"), given("b", weight=0.0)]
    assert [judge(rewards, [gate("b", 0.0)], a=1, b=b).reward for b in (-1, 0, 1)] == [0.0, 1.0, 1.0]


def test_behind_a_closed_gate_nothing_else_needs_to_be_known() -> None:
    verdict = judge([given("a"), given("b")], [gate("b")], a="?", b=0)
    assert verdict.reward == 0.0 and verdict.components == {"b": 0.0}
    assert verdict.evidence["kinds"] == {"a": "none", "b": "gated"}


def test_a_gate_that_is_missing_makes_what_it_gates_missing() -> None:
    verdict = judge([given("a"), given("b")], [gate("b")], a=1, b="?")
    assert verdict.reward is None and verdict.status is Status.VOID
    assert "component 'b' is missing: " in verdict.reason


VALUES: tuple[Any, ...] = (0, 1, "?")


@pytest.mark.parametrize("gates", list(itertools.product((None, (), ("a",), ("b", "c")), repeat=3)))
def test_the_reward_is_the_documented_formula_in_every_case(gates: tuple[Any, ...]) -> None:
    """What is known is what the formula gives, whatever the missing values would have been.

    A missing value matters unless a closed gate covers the component, and everything that it gates.
    """
    covered = {name: gated for name, gated in zip(NAMES, gates, strict=True) if gated is not None and name not in gated}
    weights = {"a": 1.0, "b": 10.0, "c": 100.0}
    spec = {
        "rewards": [given(name, weight=weights[name]) for name in NAMES],
        "gates": [gate(name, 1.0, *gated) for name, gated in covered.items()],
    }

    def over(j: str, k: str) -> bool:
        return not covered[j] or k in covered[j]

    def formula(values: dict[str, float]) -> float:
        def opened(k: str) -> bool:
            return all(values[j] >= 1.0 for j in covered if over(j, k))

        return math.fsum(weights[k] * values[k] * opened(k) for k in NAMES)

    rows = list(itertools.product(VALUES, repeat=3))
    texts = [" ".join(f"{n}={v}" for n, v in zip(NAMES, row, strict=True)) for row in rows]
    for row, verdict in zip(rows, judged(spec, {}, texts), strict=True):
        trials = itertools.product(*((0.0, 1.0) if value == "?" else (float(value),) for value in row))
        possible = {formula(dict(zip(NAMES, trial, strict=True))) for trial in trials}
        values = dict(zip(NAMES, row, strict=True))
        unknown = [name for name in NAMES if values[name] == "?"]
        touched = {k for name in unknown for k in NAMES if k == name or (name in covered and over(name, k))}
        closed = {k for k in NAMES for j in covered if over(j, k) and values[j] == 0}
        if touched <= closed:
            assert possible == {verdict.reward}, row
        else:
            assert verdict.reward is None, row


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (gate("aa"), "gates: there is no component 'aa'; did you mean 'a'"),
        (gate("b", 1.0, "aa"), "gates: there is no component 'aa'; did you mean 'a'"),
    ],
)
def test_gates_of_what_is_not_there_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback({"rewards": [given("a"), given("b")], "gates": [wrong]})


def test_a_gate_needs_a_value_that_can_be_reached() -> None:
    for wrong in ({"component": "a"}, {"component": "a", "least": float("nan")}, {"component": "a", "least": "all"}):
        with pytest.raises(ValueError, match="least"):
            FeedbackSpec.model_validate({"rewards": [given("a")], "gates": [wrong]})


def test_a_single_reward_may_have_its_gate_beside_it() -> None:
    assert judged({**given("a"), "gates": [gate("a", 0.5)]}, {}, ["a=0.4", "a=0.5"])[0].reward == 0.0


def test_what_weighs_nothing_and_gates_nothing_may_be_missing() -> None:
    recorded = [given("a"), given("b", weight=0.0)]
    found = judge(recorded, [], a=1, b="?")
    assert found.reward == 1.0 and found.components == {"a": 1.0} and found.evidence == {"kinds": {"b": "none"}}
    assert "component 'b' is missing, which its weight of 0 allows" in found.reason
    assert judge(recorded, [gate("b")], a=1, b="?").reward is None, "a gate needs it"
    assert judge([given("a"), given("b", weight=0.5)], [], a=1, b="?").reward is None, "a weight needs it"
