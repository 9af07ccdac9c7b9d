"""Generalised advantages against the recursion in plain Python; values, targets and rewards of actor and critic."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.signals.annotators import build
from burnish.signals.credit import sampled_values
from burnish.signals.gae import adaptive_lambda, discounted, gae
from burnish.signals.spec import CombineSpec, GaeSpec
from burnish.traces import CONTEXT, ENVIRONMENT, Author, Group, Role, SignalKind, Span, Trace, Verdict

POLICY = Author.model("policy", 0)


def recursion(rewards: list[float], values: list[float], lam: float, gamma: float) -> list[float]:
    found, after = [0.0] * len(rewards), 0.0
    for t in reversed(range(len(rewards))):
        following = values[t + 1] if t + 1 < len(values) else 0.0
        after = rewards[t] + gamma * following - values[t] + gamma * lam * after
        found[t] = after
    return found


@pytest.mark.parametrize("chunk", [1, 7, 128])
def test_the_scan_equals_the_recursion_whatever_the_chunk(chunk: int) -> None:
    rng = np.random.default_rng(0)
    values, decay = rng.normal(size=(3, 300)), np.array([0.0, 0.97, 1.0])
    ours = discounted(values, decay, chunk)
    for row in range(3):
        after = 0.0
        for t in reversed(range(300)):
            after = values[row, t] + decay[row] * after
            assert ours[row, t] == pytest.approx(after, rel=1e-11, abs=1e-11)


def test_gae_of_unequal_sequences_equals_the_recursion_and_looks_at_nothing_beyond() -> None:
    rng = np.random.default_rng(1)
    lengths, lams = np.array([5, 1, 130]), np.array([0.95, 0.5, 1.0])
    rewards, values = rng.normal(size=(3, 130)), rng.normal(size=(3, 130))
    ours = gae(rewards, values, lengths, lams, 0.99)
    for row, n in enumerate(lengths):
        expected = recursion(rewards[row, :n].tolist(), values[row, :n].tolist(), lams[row], 0.99)
        np.testing.assert_allclose(ours[row, :n], expected, rtol=1e-10)
        assert not ours[row, n:].any()
    rewards[0, 5:], values[1, 1:] = 1e9, np.nan
    np.testing.assert_array_equal(gae(rewards, values, lengths, lams, 0.99), ours)


def test_with_lambda_1_it_is_what_was_still_to_come_minus_the_value() -> None:
    rng = np.random.default_rng(2)
    rewards, values = rng.normal(size=(1, 40)), rng.normal(size=(1, 40))
    ours = gae(rewards, values, np.array([40]), 1.0)
    np.testing.assert_allclose(ours[0], np.cumsum(rewards[0][::-1])[::-1] - values[0], rtol=1e-10)


def test_a_length_adaptive_lambda_lets_k_of_the_reward_through_at_any_length() -> None:
    lengths = np.array([1, 64, 5_000, 126_976])
    lams = adaptive_lambda(lengths, 0.5)
    assert lams.dtype == np.float32 and lams[-1] < 1
    np.testing.assert_allclose(lams.astype(np.float64) ** lengths, 0.5, rtol=5e-3)
    assert np.exp(-1 / 1.5) ** (1 / 500) == pytest.approx(1 - 1 / (1.5 * 500), abs=2e-6)  # VAPO's, k = exp(-1 / alpha)
    with pytest.raises(InputError, match="needs a k above 0"):
        adaptive_lambda(lengths, 0.0)


def attempt(rewards: list[float], *, shaped: float = 0.0) -> Group:
    """Attempts of two turns with an observation between, values on the sampled tokens."""
    trace = Trace("t")
    root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
    members = []
    for number, reward in enumerate(rewards):
        first = trace.add(root, [7, 8], POLICY, Role.ACTION, [-1.0, -1.0])
        seen = trace.add(first, [9, 9, 9], ENVIRONMENT, Role.OBSERVATION)
        leaf = trace.add(seen, [10], POLICY, Role.ANSWER, [-1.0])
        trace.write(first, "value", [0.2, 0.1 + number])
        trace.write(leaf, "value", [0.4])
        evidence = {"shaping": {"soft_overlong": shaped}} if shaped else {}
        members.append(Span(trace, leaf, verdict=Verdict(reward, evidence=evidence)))
    return Group("g", members)


def test_advantages_bridge_what_the_environment_said_and_targets_do_not_see_shaping() -> None:
    group = attempt([1.0, 0.0], shaped=-0.5)
    build(GaeSpec(lam=0.9, whiten=False))([group])
    for number, (member, reward) in enumerate(zip(group.members, (1.0, 0.0), strict=True)):
        expected = recursion([0, 0, reward - 0.5], [0.2, 0.1 + number, 0.4], 0.9, 1.0)
        np.testing.assert_allclose(sampled_values(member, "policy", "advantage"), expected)
        np.testing.assert_allclose(sampled_values(member, "policy", "value_target"), [reward] * 3, atol=1e-12)
    node = group.members[0].trace.nodes[group.members[0].leaf]
    assert node.signals["advantage"].kind is SignalKind.POLICY
    assert node.signals["value_target"].kind is SignalKind.WEIGHT


def test_targets_are_decoupled_from_the_advantages_lambda() -> None:
    targets = []
    for lam in (0.3, 0.9):
        group = attempt([1.0, 0.0])
        build(GaeSpec(lam=lam, critic_lam=0.7, gamma=0.9))([group])
        targets.append(sampled_values(group.members[1], "policy", "value_target"))
    np.testing.assert_array_equal(*targets)
    expected = np.array(recursion([0, 0, 0], [0.2, 1.1, 0.4], 0.7, 0.9)) + np.array([0.2, 1.1, 0.4])
    np.testing.assert_allclose(targets[0], expected)


def test_advantages_are_whitened_over_the_tokens_and_adaptive_where_asked() -> None:
    group = attempt([1.0, 0.0])
    build(GaeSpec(reach=0.5))([group])
    found = np.concatenate([sampled_values(m, "policy", "advantage") for m in group.members])
    assert found.mean() == pytest.approx(0, abs=1e-12) and found.std(ddof=1) == pytest.approx(1, abs=1e-5)
    lam = 0.5 ** (1 / 3)
    plain = recursion([0, 0, 1], [0.2, 0.1, 0.4], lam, 1.0) + recursion([0, 0, 0], [0.2, 1.1, 0.4], lam, 1.0)
    plain = (np.array(plain) - np.mean(plain)) / (np.std(plain, ddof=1) + 1e-6)
    np.testing.assert_allclose(found, plain, rtol=1e-5)


def test_a_missing_reward_gets_nothing_and_a_missing_value_is_an_error() -> None:
    from burnish.traces import Status

    group = attempt([1.0, 0.0])
    group.members[0].verdict = Verdict.missing(Status.INFRA_ERROR, "lost")
    build(GaeSpec(whiten=False))([group])
    assert np.isnan(sampled_values(group.members[0], "policy", "advantage")).all()
    assert not np.isnan(sampled_values(group.members[1], "policy", "advantage")).any()
    with pytest.raises(InputError, match="need the signal 'other' on every sampled token"):
        build(GaeSpec(value="other"))([group])


def test_streams_are_combined_by_weight_where_one_is_there() -> None:
    trace = Trace("t")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    leaf = trace.add(root, [7, 8, 9], POLICY, Role.ANSWER, [-1.0] * 3)
    trace.write(leaf, "a", [1.0, np.nan, np.nan], SignalKind.POLICY, learner="policy")
    trace.write(leaf, "b", [2.0, 3.0, np.nan], SignalKind.POLICY, learner="policy")
    build(CombineSpec(streams=("a", "b"), weights=(1.0, 0.5)))([Group("g", [Span(trace, leaf)])])
    np.testing.assert_array_equal(trace.nodes[leaf].signals["advantage"].values, [2.0, 1.5, np.nan])
    assert "advantage" not in trace.nodes[root].signals
    with pytest.raises(ValueError, match="1 for 2 streams"):
        CombineSpec(streams=("a", "b"), weights=(1.0,))
