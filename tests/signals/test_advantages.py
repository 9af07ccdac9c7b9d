"""Group advantages against their formulas, with missing rewards, and how they are written on nodes."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.errors import PromiseError
from burnish.signals.advantages import EPSILON, group_advantages
from burnish.signals.annotators import build
from burnish.signals.credit import sampled_tokens, write_credits
from burnish.signals.spec import AdvantageEstimator, GroupAdvantageSpec, MaskTruncatedSpec
from burnish.traces import CONTEXT, Author, Group, Role, Span, Status, Trace, Verdict

R = np.array([1.0, 0.0, 0.0, 3.0])
S = np.array([2.0, np.nan, 4.0])
LENGTHS = [np.array([1.0, 2.0, 3.0, 4.0]), np.array([5.0, 6.0, 7.0])]
ALL = np.array([1.0, 0.0, 0.0, 3.0, 2.0, 4.0])
CENTRED = np.array([0.0, -1.0, -1.0, 2.0, -1.0, 1.0])


@pytest.mark.parametrize(
    ("estimator", "first", "second"),
    [
        ("mean", R - 1, [-1, np.nan, 1]),
        ("grpo", (R - 1) / (np.std(R, ddof=1) + EPSILON), np.array([-1, np.nan, 1]) / (np.sqrt(2) + EPSILON)),
        ("rloo", [1 - 1, 0 - 4 / 3, 0 - 4 / 3, 3 - 1 / 3], [-2, np.nan, 2]),
        ("batch_std", (R - 1) / (ALL.std(ddof=1) + EPSILON), np.array([-1, np.nan, 1]) / (ALL.std(ddof=1) + EPSILON)),
        (
            "reinforce_pp_baseline",
            (R - 1) / (CENTRED.std(ddof=1) + EPSILON),
            np.array([-1, np.nan, 1]) / (CENTRED.std(ddof=1) + EPSILON),
        ),
        ("maxrl", (R - 1) / 1, [-1 / 3, np.nan, 1 / 3]),
        ("opo", R - 13 / 10, [2 - 38 / 12, np.nan, 4 - 38 / 12]),
        ("pass_at_k", [0, 0, 0, 2], [0, np.nan, 2]),
    ],
)
def test_estimators_equal_their_formulas(estimator: AdvantageEstimator, first, second) -> None:  # type: ignore[no-untyped-def]
    ours = group_advantages([R, S], estimator, LENGTHS)
    np.testing.assert_allclose(ours[0], first, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours[1], second, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "estimator", ["mean", "grpo", "rloo", "batch_std", "reinforce_pp_baseline", "maxrl", "opo", "pass_at_k"]
)
def test_groups_without_spread_or_with_one_reward_have_zero_advantages(estimator: AdvantageEstimator) -> None:
    groups = [np.array([0.0, 0.0]), np.array([np.nan, 0.0]), np.array([np.nan, np.nan])]
    zero, single, none = group_advantages(groups, estimator, [np.ones(2)] * 3)
    assert zero.tolist() == [0, 0]
    assert np.isnan(single[0]) and single[1] == 0
    assert np.isnan(none).all()


def group_of(rewards: list[float | None], finish: str = "stop") -> Group:
    trace = Trace("t")
    root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
    members = []
    for reward in rewards:
        leaf = trace.add(root, [7, 8], Author.model("policy", 0), Role.ANSWER, [-1.0, -1.0], meta={"finish": finish})
        verdict = Verdict.missing(Status.INFRA_ERROR, "lost") if reward is None else Verdict(reward)
        members.append(Span(trace, leaf, verdict=verdict))
    return Group("g", members)


def test_a_missing_reward_gets_no_advantage_and_does_not_move_the_mean() -> None:
    group = group_of([1.0, None, 3.0])
    build(GroupAdvantageSpec())([group])
    nodes = group.members[0].trace.nodes
    assert [n.signals["advantage"].values.tolist() for n in (nodes[1], nodes[3])] == [[-1, -1], [1, 1]]
    assert "advantage" not in nodes[2].signals and "advantage" not in nodes[0].signals


def test_zero_variance_groups_can_be_left_out() -> None:
    kept, dropped = group_of([1.0, 1.0]), group_of([1.0, 1.0])
    build(GroupAdvantageSpec())([kept])
    build(GroupAdvantageSpec(drop_zero_variance=True))([dropped])
    assert kept.members[0].trace.nodes[1].signals["advantage"].values.tolist() == [0, 0]
    assert "advantage" not in dropped.members[0].trace.nodes[1].signals


def test_a_group_of_which_less_than_half_has_a_reward_is_left_out() -> None:
    thin, half = group_of([1.0, None, None]), group_of([1.0, 0.0, None, None])
    build(GroupAdvantageSpec())([thin, half])
    written = [m.trace.nodes[m.leaf].signals.get("advantage") for g in (thin, half) for m in g.members]
    assert all(w is None or np.isnan(w.values).all() for w in written[:3])
    assert [float(w.values[0]) for w in written[3:5]] == [0.5, -0.5]
    build(GroupAdvantageSpec(least_present=0.0))([thin])
    assert float(thin.members[0].trace.nodes[thin.members[0].leaf].signals["advantage"].values[0]) == 0.0


def test_what_was_sampled_anew_in_place_of_a_lost_member_is_not_missed() -> None:
    group = group_of([1.0, 0.0, None, None, None])
    for member in group.members[2:]:
        assert member.verdict is not None
        member.verdict.evidence["sampled_anew"] = True
    build(GroupAdvantageSpec())([group])
    first = group.members[0]
    assert float(first.trace.nodes[first.leaf].signals["advantage"].values[0]) == 0.5


def test_truncated_samples_can_be_masked() -> None:
    group = group_of([1.0, 0.0], finish="length")
    build(MaskTruncatedSpec())([group])
    assert all(m.masked for m in group.members)
    assert np.isnan(group.rewards).all()


def test_a_shared_token_gets_the_mean_credit_of_its_leaves() -> None:
    trace = Trace("tree")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    policy = Author.model("policy", 0)
    stem = trace.add(root, [6], policy, Role.ANSWER, [-1.0])
    leaves = [trace.add(stem, [7 + i], policy, Role.ANSWER, [-1.0]) for i in range(3)]
    group = Group("g", [Span(trace, leaf) for leaf in leaves])
    write_credits([group], [np.array([3.0, -1.0, 4.0])], "advantage", "policy")
    assert trace.nodes[stem].signals["advantage"].values.tolist() == [2.0]
    assert trace.nodes[leaves[2]].signals["advantage"].values.tolist() == [4.0]


def test_e7_credit_never_reaches_another_models_tokens() -> None:
    group = group_of([1.0, 0.0])
    write_credits([group], [np.array([1.0, -1.0])], "advantage", "somebody-else")
    assert all(not n.signals for n in group.members[0].trace.nodes)
    from burnish.traces import SignalKind

    with pytest.raises(PromiseError, match="E7"):
        group.members[0].trace.write(0, "advantage", [1.0, 1.0], SignalKind.POLICY, learner="policy")


def test_credit_of_spans_reaches_only_the_tokens_inside_them() -> None:
    """Turn-level groups on shared traces: each turn is compared with the same turn of the other trace."""
    policy = Author.model("policy", 0)
    spans = []
    for rewards in ((1.0, 0.0), (0.0, 1.0)):
        trace = Trace("turns")
        root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
        leaf = trace.add(root, [7, 8, 9], policy, Role.ANSWER, [-1.0] * 3)
        spans.append([
            Span(trace, leaf, "first", 2, 3, verdict=Verdict(rewards[0])),
            Span(trace, leaf, "second", 3, 5, verdict=Verdict(rewards[1])),
        ])  # fmt: skip
    groups = [Group("first", [s[0] for s in spans]), Group("second", [s[1] for s in spans])]
    assert [sampled_tokens(m, "policy") for m in groups[1].members] == [2, 2]
    build(GroupAdvantageSpec())([Group("both", children=groups)])
    written = [s[0].trace.nodes[1].signals["advantage"].values.tolist() for s in spans]
    assert written == [[0.5, -0.5, -0.5], [-0.5, 0.5, 0.5]]


def test_a_span_in_two_groups_gets_the_mean_of_its_credits() -> None:
    group = group_of([1.0, 0.0])
    other = Group("other", group.members[:1])
    write_credits([group, other], [np.array([1.0, -1.0]), np.array([4.0])], "advantage", "policy")
    assert group.members[0].trace.nodes[1].signals["advantage"].values.tolist() == [2.5, 2.5]


def test_annotating_again_leaves_nothing_of_the_last_time() -> None:
    group = group_of([1.0, 0.0])
    build(GroupAdvantageSpec())([group])
    group.members[0].verdict = Verdict(0.0)
    build(GroupAdvantageSpec(drop_zero_variance=True))([group])
    assert all("advantage" not in node.signals for node in group.members[0].trace.nodes)
