"""Length shaping against its formulas, and how the annotator counts, remembers and keeps actor and critic apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from burnish.signals import shaping
from burnish.signals.annotators import build
from burnish.signals.lengths import Shaping
from burnish.signals.rewards import actor_reward, critic_reward
from burnish.signals.spec import GroupAdvantageSpec, ShapingSettings, ShapingSpec
from burnish.traces import CONTEXT, Author, Group, Role, Span, Status, Trace, Verdict

REWARDS = np.array([1.0, 1.0, 0.0, np.nan, 0.0])
LENGTHS = np.array([10.0, 30.0, 20.0, 5.0, 50.0])


def test_soft_overlong_falls_over_the_buffer() -> None:
    found = shaping.soft_overlong(np.zeros(5), np.array([10.0, 80.0, 90.0, 100.0, 120.0]), 100, 20)
    np.testing.assert_allclose(found, [0, 0, -0.5, -1, -1])
    assert shaping.soft_overlong(REWARDS, LENGTHS + 100, 20, 4)[3] == 0


def test_the_relative_length_reward_is_of_the_group_and_never_pays_for_a_wrong_answer() -> None:
    np.testing.assert_allclose(shaping.relative(REWARDS, LENGTHS, 1.0), [0.5, 0.0, 0.0, 0.0, -0.5])
    assert not shaping.relative(np.ones(3), np.full(3, 7.0), 1.0).any()


def test_among_right_is_between_the_shortest_and_the_longest_right_answer() -> None:
    np.testing.assert_allclose(shaping.among_right(REWARDS, LENGTHS, 1.0), [0.5, -0.5, 0.0, 0.0, -0.5], atol=1e-9)
    assert not shaping.among_right(np.zeros(3), np.array([1.0, 2, 3]), 1.0).any()


def test_toggle_takes_the_reward_of_long_answers_where_the_group_is_right_often_enough() -> None:
    np.testing.assert_allclose(shaping.toggled(REWARDS, LENGTHS, 1.0, 15.0, 0.5), [0, -1, 0, 0, 0])
    assert not shaping.toggled(REWARDS, LENGTHS, 1.0, 15.0, 0.6).any()
    assert not shaping.toggled(REWARDS, LENGTHS, 1.0, float("nan"), 0.5).any()


def test_the_concave_cost_has_slope_minus_1_at_first_and_less_later() -> None:
    for power in (0.5, 1.0):
        cost = shaping.concave(np.zeros(4), np.array([0.0, 1e-4, 100.0, 101.0]), 0.05, power)
        assert cost[1] / 1e-4 == pytest.approx(-1, rel=1e-4)
        assert cost[3] - cost[2] == pytest.approx(-((1 + 0.05 * 100.5) ** -power), rel=1e-3)


def test_an_answer_over_its_budget_is_worth_minus_1() -> None:
    added = shaping.over_budget(REWARDS, LENGTHS, 25.0)
    np.testing.assert_allclose(REWARDS + added, [1, -1, 0, np.nan, -1])


# ---------------------------------------------------------------- the annotator


def group_of(rewards: list[float | None], lengths: list[int], task: str = "x") -> Group:
    trace = Trace(task, {"task": task})
    root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
    members = []
    for reward, length in zip(rewards, lengths, strict=True):
        leaf = trace.add(root, [7] * length, Author.model("policy", 0), Role.ANSWER, [-1.0] * length)
        verdict = Verdict.missing(Status.INFRA_ERROR, "lost") if reward is None else Verdict(reward)
        members.append(Span(trace, leaf, verdict=verdict))
    return Group(task, members)


def shaped(annotator: Any, rewards: list[float | None], lengths: list[int]) -> list[float]:
    group = group_of(rewards, lengths)
    annotator([group])
    return [actor_reward(m) for m in group.members]


def test_the_actor_is_told_to_be_brief_and_the_critic_is_not() -> None:
    group = group_of([1.0, 1.0, None], [4, 10, 3])
    build(ShapingSpec(settings=ShapingSettings(coefficient=0.5), longest=10))([group])
    build(ShapingSpec(settings=ShapingSettings(coefficient=0.5), longest=10))([group])  # again: replaced, not added
    np.testing.assert_allclose([actor_reward(m) for m in group.members], [1, 0.5, np.nan])
    np.testing.assert_allclose([critic_reward(m) for m in group.members], [1, 1, np.nan])
    build(GroupAdvantageSpec())([group])
    found = [m.trace.nodes[m.leaf].signals.get("advantage") for m in group.members]
    assert [None if f is None else float(f.values[0]) for f in found] == [0.25, -0.25, None]
    group.members[0].masked = True
    assert np.isnan(actor_reward(group.members[0])) and np.isnan(critic_reward(group.members[0]))


def test_shaping_begins_after_so_many_steps() -> None:
    annotator = build(ShapingSpec(settings=ShapingSettings(rule="relative", after=1)))
    assert shaped(annotator, [1.0, 1.0], [2, 4]) == [1, 1]
    assert shaped(annotator, [1.0, 1.0], [2, 4]) == [1.5, 0.5]


def test_toggle_alternates_and_keeps_the_budget_of_the_first_right_answers() -> None:
    settings = ShapingSettings(rule="toggle", every=1, accuracy=0.5)
    annotator = build(ShapingSpec(settings=settings))
    assert shaped(annotator, [1.0, 1.0, 0.0], [2, 6, 9]) == [1, 1, 0]  # free; the budget is 4
    assert shaped(annotator, [1.0, 1.0, 0.0], [4, 5, 9]) == [1, 0, 0]
    assert shaped(annotator, [1.0, 1.0, 0.0], [4, 5, 9]) == [1, 1, 0]
    assert isinstance(annotator, Shaping) and annotator.state() == {"step": 3, "budgets": {"x": 4.0}}


def test_an_effort_level_anneals_and_resumes_where_it_was() -> None:
    settings = ShapingSettings(rule="effort", first=3.0, last=1.0, steps=2)
    annotator, again = (build(ShapingSpec(settings=settings)) for _ in range(2))
    assert isinstance(annotator, Shaping) and isinstance(again, Shaping)
    assert shaped(annotator, [0.0, 0.0], [90, 99]) == [0, 0]  # no right answer yet, no budget
    assert shaped(annotator, [1.0, 1.0], [4, 4]) == [1, 1]
    again.load(annotator.state())
    for annotating in (annotator, again):
        assert shaped(annotating, [1.0, 0.0, 1.0], [4, 5, 5]) == [1, -1, -1]


def test_a_setting_that_the_rule_does_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="buffer: unused with rule concave; it is for soft_overlong"):
        ShapingSettings(rule="concave", buffer=3)
