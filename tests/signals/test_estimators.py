"""Advantages that are more than a comparison with the group's mean, each against its definition."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.signals.advantages import group_advantages, max_at_k, multi_reward, whitened
from burnish.signals.annotators import MovingAverage, build
from burnish.signals.credit import sampled_values
from burnish.signals.rewards import BASELINE
from burnish.signals.spec import GroupAdvantageSpec, SegmentSpec
from burnish.traces import CONTEXT, ENVIRONMENT, Author, Group, Role, Span, Trace, Verdict

POLICY = Author.model("policy", 0)
R = np.array([1.0, 0.0, 0.25, 3.0])


def group_of(rewards: list[float], *, key: str = "g", tokens: int = 2, domain: str = "") -> Group:
    trace = Trace(key, {"domain": domain})
    root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
    members = []
    for reward in rewards:
        leaf = trace.add(root, range(7, 7 + tokens), POLICY, Role.ANSWER, -np.arange(1.0, tokens + 1))
        members.append(Span(trace, leaf, verdict=Verdict(reward)))
    return Group(key, members)


def written(group: Group, place: int = 0) -> list[float]:
    return sampled_values(group.members[place], "policy", "advantage").tolist()


# ---------------------------------------------------------------- the best of k


@pytest.mark.parametrize("k", [2, 3, 4])
def test_max_at_k_equals_its_definition_over_every_subset(k: int) -> None:
    for rewards in (R, np.array([1.0, 0.0, 1.0, 0.0, 0.0])):
        n = len(rewards)
        expected = np.zeros(n)
        for i in range(n):
            for chosen in combinations(range(n), k):
                if i in chosen:
                    others = [rewards[j] for j in chosen if j != i]
                    expected[i] += max(rewards[i], *others) - max(others)
        np.testing.assert_allclose(max_at_k(rewards, k), expected * n / comb(n, k), atol=1e-12)


def test_max_at_k_follows_the_gradient_of_the_expected_best() -> None:
    """Three symbols, n = 3 draws: the mean of A_i grad log pi over every outcome is the gradient of E[best of 2]."""
    p, worth = np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 0.4])

    def best_of_2(q: np.ndarray) -> float:
        return sum(q[a] * q[b] * max(worth[a], worth[b]) for a in range(3) for b in range(3))

    expected = np.zeros(3)
    for outcome in np.ndindex(3, 3, 3):
        advantages = max_at_k(worth[list(outcome)], 2)
        score = np.eye(3)[list(outcome)] - p  # grad of log softmax
        expected += np.prod(p[list(outcome)]) * (advantages[:, None] * score).mean(axis=0)
    logits, step = np.log(p), 1e-6

    def at(z: np.ndarray) -> float:
        return best_of_2(np.exp(z) / np.exp(z).sum())

    numeric = [(at(logits + step * e) - at(logits - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(expected, numeric, atol=1e-8)


def test_k_the_size_of_the_group_is_the_leads_alone() -> None:
    np.testing.assert_allclose(max_at_k(R, 4), 4 * group_advantages([R], "pass_at_k")[0])


def test_a_k_above_the_group_is_refused_and_a_group_that_lost_too_many_is_left_out() -> None:
    with pytest.raises(InputError, match="k is 5, but a group has 4 samples"):
        max_at_k(R, 5)
    with pytest.raises(InputError, match="best of one sample"):
        max_at_k(R, 1)
    assert np.isnan(max_at_k(np.array([1.0, np.nan, np.nan, 0.0]), 3)).all()
    kept = max_at_k(np.array([1.0, np.nan, 0.5, 0.0]), 3)
    assert np.isnan(kept[1]) and kept[0] == pytest.approx(3 * 0.5)


# ---------------------------------------------------------------- centre and scale


def test_any_centre_goes_with_any_scale() -> None:
    lengths, std = [np.array([1.0, 2.0, 3.0, 4.0])], R.std(ddof=1) + 1e-6
    weighted = (lengths[0] * R).sum() / lengths[0].sum()
    for centre, middle in (("greedy", 0.5), ("moving_average", 0.5), ("length_weighted", weighted)):
        for scale, divisor in (("none", 1.0), ("std", std), ("batch_std", std), ("mean", R.mean())):
            ours = group_advantages([R], "group", lengths, centre=centre, scale=scale, baselines=[0.5])  # type: ignore[arg-type]
            np.testing.assert_allclose(ours[0], (R - middle) / divisor)


def test_leave_one_out_is_the_mean_baseline_times_g_over_g_minus_1() -> None:
    ours = group_advantages([R], "group", centre="leave_one_out")[0]
    np.testing.assert_allclose(ours, group_advantages([R], "mean")[0] * 4 / 3)
    np.testing.assert_allclose(ours[0], R[0] - R[1:].mean())


def test_a_voided_sample_leaves_the_others_as_if_it_had_never_been() -> None:
    """Invariant: the baseline of the others is that of the group without it."""
    voided = np.append(R, np.nan)
    for estimator in ("mean", "grpo", "rloo", "maxrl", "pass_at_k"):
        np.testing.assert_array_equal(
            group_advantages([voided], estimator)[0][:4], group_advantages([R], estimator)[0]  # type: ignore[arg-type]
        )  # fmt: skip


def test_each_component_counts_alike_however_small_its_numbers() -> None:
    first = {"right": np.array([1.0, 0.0, 0.0]), "brief": np.array([0.001, 0.003, 0.002])}
    second = {"right": np.array([0.0, 0.0, 0.0]), "brief": np.array([np.nan, 0.1, 0.3])}
    z = [[(v - v.mean()) / (v.std(ddof=1) + 1e-6) for v in first.values()]]
    alone = np.array([0.1, 0.3])
    sums = [z[0][0] + z[0][1], np.array([0.0, *((alone - 0.2) / (alone.std(ddof=1) + 1e-6))])]
    pool = np.concatenate(sums)
    ours = multi_reward([first, second])
    for mine, expected in zip(ours, sums, strict=True):
        np.testing.assert_allclose(mine, (expected - pool.mean()) / (pool.std(ddof=1) + 1e-6), atol=1e-12)


def test_multi_reward_reads_the_components_of_verdicts() -> None:
    group = group_of([1.0, 2.0, 0.0])
    for member, parts in zip(group.members, ((1.0, 0.001), (0.0, 0.003), (0.0, 0.002)), strict=True):
        member.verdict = Verdict(sum(parts), components=dict(zip(("right", "brief"), parts, strict=True)))
    build(GroupAdvantageSpec(estimator="multi_reward"))([group])
    right, brief = np.array([1.0, 0.0, 0.0]), np.array([0.001, 0.003, 0.002])
    [expected] = multi_reward([{"right": right, "brief": brief}])
    np.testing.assert_allclose([written(group, i)[0] for i in range(3)], expected)


def test_whitening_has_mean_0_and_deviation_1_and_takes_nothing_of_what_is_flat() -> None:
    [values] = whitened([np.array([1.0, 2.0, np.nan, 4.0])])
    there = values[~np.isnan(values)]
    assert there.mean() == pytest.approx(0, abs=1e-12) and there.std(ddof=1) == pytest.approx(1, abs=1e-5)
    assert whitened([np.array([3.0, 3.0])])[0].tolist() == [0, 0]
    assert whitened([]) == [] and whitened([np.array([2.0])])[0].tolist() == [0]


# ---------------------------------------------------------------- written on tokens


def test_reinforce_pp_needs_no_group_and_whitens_over_tokens() -> None:
    groups = [group_of([1.0], key="a", tokens=1), group_of([0.0], key="b", tokens=3)]
    build(GroupAdvantageSpec(estimator="reinforce_pp"))(groups)
    pool = np.array([1.0, 0, 0, 0])
    expected = (pool - pool.mean()) / (pool.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(written(groups[0]) + written(groups[1]), expected)


def reference(group: Group, gap: float) -> None:
    """A reference under which every token is less likely by `gap` nats."""
    for member in group.members:
        node = member.trace.nodes[member.leaf]
        member.trace.write(member.leaf, "reference_logprob", node.logprobs.astype(float) - gap)


def test_reinforce_pp_takes_the_kl_to_come_from_each_token() -> None:
    groups = [group_of([1.0], key="a", tokens=2), group_of([0.0], key="b", tokens=3)]
    for group, gap in zip(groups, (0.5, -0.25), strict=True):
        reference(group, gap)
    build(GroupAdvantageSpec(estimator="reinforce_pp", kl=0.1))(groups)
    pool = np.array([1 - 0.1 * 1.0, 1 - 0.1 * 0.5, 0.1 * 0.75, 0.1 * 0.5, 0.1 * 0.25])
    expected = (pool - pool.mean()) / (pool.std(ddof=1) + 1e-6)
    np.testing.assert_allclose(written(groups[0]) + written(groups[1]), expected, rtol=1e-6)


def test_a_kl_in_the_reward_is_that_of_the_whole_sample() -> None:
    group = group_of([1.0, 0.0], tokens=2)
    reference(group, 0.5)
    group.members[1].trace.write(group.members[1].leaf, "reference_logprob", [-1.0, -2.0])  # no divergence
    build(GroupAdvantageSpec(kl=0.1))([group])
    np.testing.assert_allclose([written(group, i)[0] for i in (0, 1)], [0.45, -0.45], rtol=1e-6)
    with pytest.raises(InputError, match="a KL in the reward needs 'other_logprob'"):
        build(GroupAdvantageSpec(kl=0.1, reference="other"))([group])


def test_a_greedy_answer_is_compared_with_and_never_trained() -> None:
    group = group_of([1.0, 0.0, 0.75])
    group.members[2].name, group.members[2].masked = BASELINE, True
    build(GroupAdvantageSpec(estimator="remax"))([group])
    assert [written(group, i)[0] for i in (0, 1)] == [0.25, -0.75]
    assert np.isnan(written(group, 2)).all()
    build(GroupAdvantageSpec(estimator="mean"))([group])
    assert [written(group, i)[0] for i in (0, 1)] == [0.5, -0.5]
    with pytest.raises(InputError, match="has no greedy answer to compare with"):
        build(GroupAdvantageSpec(estimator="remax"))([group_of([1.0, 0.0])])


def test_a_moving_average_begins_with_the_first_mean_and_is_kept_by_domain() -> None:
    spec = GroupAdvantageSpec(estimator="group", centre="moving_average", decay=0.75)
    annotator = build(spec)
    assert isinstance(annotator, MovingAverage)
    first, other = group_of([1.0, 0.0], domain="x"), group_of([4.0], key="o", domain="y")
    annotator([first, other])
    assert written(first) == [0.5, 0.5] and written(other) == [0, 0]
    later = group_of([1.0], domain="x")
    annotator([later])
    assert written(later) == [0.5, 0.5]  # against the average of the steps before it
    assert annotator.averages == {"x": 0.75 * 0.5 + 0.25 * 1.0, "y": 4.0}
    again = build(spec)
    assert isinstance(again, MovingAverage)
    again.load(annotator.state())
    last = group_of([0.0], domain="x")
    again([last])
    assert written(last) == [-0.625, -0.625]


def test_spans_that_began_in_the_same_state_are_compared_across_attempts() -> None:
    trace = Trace("t")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    turns, members = [], []
    for state, reward, whole in (("a", 1.0, 0.0), ("b", 5.0, 0.0), ("a", 0.0, 0.0), (None, 9.0, 0.0)):
        leaf = trace.add(root, [7, 8], POLICY, Role.ACTION, [-1.0, -1.0])
        members.append(Span(trace, leaf, verdict=Verdict(whole)))
        turns.append(Span(trace, leaf, "turn", 1, 3, state_key=state, verdict=Verdict(reward)))
    group = Group("g", members, children=[Group("g/turns", turns)])
    build(GroupAdvantageSpec(by="state"))([group])
    values = [trace.nodes[m.leaf].signals.get("advantage") for m in members]
    assert [None if v is None else v.values.tolist() for v in values] == [[0.5, 0.5], [0, 0], [-0.5, -0.5], None]


def test_turns_that_nobody_judged_are_worth_what_their_attempt_is() -> None:
    """Two attempts of two turns; both second turns begin in state b, the first ones in different states."""
    trace = Trace("t")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    members = []
    for start, reward in (("a", 1.0), ("c", 0.0)):
        first = trace.add(root, [7, 8], POLICY, Role.ACTION, [-1.0, -1.0])
        seen = trace.add(first, [4], ENVIRONMENT, Role.OBSERVATION)
        leaf = trace.add(seen, [9], POLICY, Role.ANSWER, [-1.0])
        trace.spans += [Span(trace, first, "turn", 1, state_key=start), Span(trace, leaf, "turn", 4, state_key="b")]
        members.append(Span(trace, leaf, verdict=Verdict(reward)))
    group = Group("g", members)
    build(GroupAdvantageSpec(by="state"))([group])
    assert [written(group, i) for i in (0, 1)] == [[0, 0, 0.5], [0, 0, -0.5]]


def test_segments_are_turns_or_runs_of_sampled_tokens() -> None:
    trace = Trace("t")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    first = trace.add(root, [7, 8, 9], POLICY, Role.ACTION, [-1.0] * 3)
    seen = trace.add(first, [4, 4], ENVIRONMENT, Role.OBSERVATION)
    ends = [trace.add(seen, [7, 8], POLICY, Role.ANSWER, [-1.0] * 2) for _ in range(2)]
    group = Group("g", [Span(trace, end) for end in ends])
    for tokens, expected in ((None, ([0, 0, 0], [1, 1])), (2, ([0, 0, 1], [1, 2]))):
        build(SegmentSpec(tokens=tokens))([group])
        for node, numbers in ((first, expected[0]), (ends[0], expected[1]), (ends[1], expected[1])):
            assert trace.nodes[node].signals["segment"].values.tolist() == numbers
        assert "segment" not in trace.nodes[seen].signals
