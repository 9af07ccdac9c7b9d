"""Weights and rejections for a sampler that is not the learner, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.signals.annotators import build
from burnish.signals.correction import coin_weights, kept, weights
from burnish.signals.credit import sampled_values
from burnish.signals.spec import CorrectionSettings, CorrectionSpec
from burnish.traces import CONTEXT, Author, Group, Role, Span, Trace, Verdict

RHO = np.array([0.2, 0.8, 1.5, 3.0, 9.0])
POLICY = Author.model("policy", 0)


def test_tis_truncates_and_mis_drops() -> None:
    logs = np.log(RHO)
    np.testing.assert_allclose(weights(logs, CorrectionSettings()), [0.2, 0.8, 1.5, 2, 2])
    np.testing.assert_allclose(weights(logs, CorrectionSettings(rule="mis")), [0, 0.8, 1.5, 3, 0])
    ring = CorrectionSettings(rule="mis", low=0.5, high=2.0)
    np.testing.assert_allclose(weights(logs, ring), [0, 0.8, 1.5, 0, 0])


def test_of_a_sequence_it_is_the_product() -> None:
    logs = np.log(np.array([0.8, 1.5, 1.25]))
    np.testing.assert_allclose(weights(logs, CorrectionSettings(level="sequence")), [1.5] * 3)
    np.testing.assert_allclose(weights(logs, CorrectionSettings(level="sequence", high=1.2)), [1.2] * 3)
    np.testing.assert_allclose(weights(logs, CorrectionSettings(rule="mis", level="sequence", high=1.2)), [0] * 3)
    assert np.isfinite(weights(np.full(9, 500.0), CorrectionSettings(level="sequence"))).all()


def test_coins_that_differ_either_way_are_left_out() -> None:
    p, q = np.array([0.5, 0.9, 0.99, 0.3]), np.array([0.5, 0.6, 0.9, 0.32])
    there = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    back = q * np.log(q / p) + (1 - q) * np.log((1 - q) / (1 - p))
    expected = (np.maximum(there, back) <= 0.1).astype(float)
    assert sorted(set(expected)) == [0, 1] and (there[2] <= 0.1) != (back[2] <= 0.1)
    np.testing.assert_array_equal(coin_weights(np.log(p), np.log(q), 0.1), expected)


def test_samples_are_rejected_by_their_mean() -> None:
    near, far = np.log([0.95, 1.05, 1.0]), np.log([1.3, 1.2, 0.9])
    geometric, k3 = CorrectionSettings(rule="geometric"), CorrectionSettings(rule="k3")
    assert kept(near, geometric) and not kept(far, geometric)
    assert kept(near, k3) and not kept(far, k3)
    assert kept(far, CorrectionSettings(rule="k3", high=float((np.exp(far) - 1 - far).mean()) + 1e-9))
    assert kept(np.zeros(0), geometric)


def group_of(rho: list[list[float]]) -> Group:
    trace = Trace("t")
    root = trace.add(-1, [5], CONTEXT, Role.PROMPT)
    members = []
    for place, each in enumerate(rho):
        leaf = trace.add(root, range(7, 7 + len(each)), POLICY, Role.ANSWER, [-1.0] * len(each))
        trace.write(leaf, "old_logprob", -1.0 + np.log(each))
        members.append(Span(trace, leaf, verdict=Verdict(float(place))))
    return Group("g", members)


def written(group: Group) -> list[list[float]]:
    return [sampled_values(m, "policy", "correction").tolist() for m in group.members]


def test_weights_are_written_on_every_sampled_token() -> None:
    group = group_of([[0.5, 4.0], [1.0]])
    build(CorrectionSpec())([group])
    assert written(group) == [[pytest.approx(0.5), 2.0], [pytest.approx(1.0)]]
    build(CorrectionSpec(settings=CorrectionSettings(normalise=True)))([group])
    assert np.mean(np.concatenate(written(group))) == pytest.approx(1.0)
    assert written(group)[0][1] / written(group)[0][0] == pytest.approx(4.0)


def test_a_rejected_sample_is_masked_and_the_others_are_not() -> None:
    group = group_of([[1.2, 1.2], [1.0, 1.0], [0.9, 1.1]])
    build(CorrectionSpec(settings=CorrectionSettings(rule="geometric", low=0.9, high=1.1)))([group])
    assert [m.masked for m in group.members] == [True, False, False]
    assert "correction" not in group.members[1].trace.nodes[group.members[1].leaf].signals


def test_a_sample_that_the_learner_has_not_scored_is_an_error() -> None:
    group = group_of([[1.0]])
    group.members[0].trace.clear("old_logprob")
    with pytest.raises(InputError, match="a correction needs 'old_logprob'"):
        build(CorrectionSpec())([group])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rule": "k3", "level": "sequence"}, "level: unused with rule k3"),
        ({"rule": "tis", "low": 0.5}, "low: unused with rule tis"),
        ({"rule": "geometric", "normalise": True}, "normalise: unused with rule geometric"),
        ({"rule": "mis", "low": 6}, "the band from 6 to 5 is empty"),
        ({"high": -1}, "high"),
    ],
)
def test_limits_that_say_nothing_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CorrectionSettings.model_validate(values)
