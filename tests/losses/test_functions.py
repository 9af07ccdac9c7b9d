"""Losses against closed forms and exact enumeration; reductions against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.losses import functions
from burnish.losses.reductions import Incidence, fold
from burnish.losses.spec import Reduction


def policies(seed: int = 0, symbols: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of a policy, log-probabilities of a reference and of an older policy over a few symbols, float64."""
    generator = torch.Generator().manual_seed(seed)
    logits, ref, old = (torch.randn(symbols, dtype=torch.float64, generator=generator) for _ in range(3))
    return logits.requires_grad_(), torch.log_softmax(ref, 0), torch.log_softmax(old, 0)


def gradient(value: Tensor, logits: Tensor) -> Tensor:
    return torch.autograd.grad(value, logits)[0]


def true_kl_gradient(logits: Tensor, ref: Tensor) -> Tensor:
    logp = torch.log_softmax(logits, 0)
    return gradient((logp.exp() * (logp - ref)).sum(), logits)


ESTIMATORS = {
    "k1": lambda lp, ref, old: functions.kl_k1(lp, ref),
    "k2": lambda lp, ref, old: functions.kl_k2(lp, ref),
    "k3": lambda lp, ref, old: functions.kl_k3(lp, ref),
    "k1_ratio": lambda lp, ref, old: functions.ratio_weighted(functions.kl_k1(lp, ref), lp, old),
    "k3_ratio": lambda lp, ref, old: functions.ratio_weighted(functions.kl_k3(lp, ref), lp, old),
}


def expected_gradient(name: str, seed: int, on_policy: bool) -> tuple[Tensor, Tensor]:
    """Expected gradient of an estimator over the sampling policy, by enumeration, and the true KL gradient."""
    logits, ref, old = policies(seed)
    logp = torch.log_softmax(logits, 0)
    sampled_from = logp.detach() if on_policy else old
    value = (sampled_from.exp() * ESTIMATORS[name](logp, ref, sampled_from)).sum()
    return gradient(value, logits), true_kl_gradient(logits, ref)


@pytest.mark.parametrize(
    ("name", "on_policy"),
    [("k2", True), ("k1_ratio", True), ("k3_ratio", True), ("k1_ratio", False), ("k3_ratio", False)],
)
def test_kl_estimators_called_right_have_the_gradient_of_the_kl(name: str, on_policy: bool) -> None:
    for seed in range(5):
        ours, truth = expected_gradient(name, seed, on_policy)
        torch.testing.assert_close(ours, truth, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "on_policy"), [("k3", True), ("k2", False), ("k3", False)])
def test_kl_estimators_called_biased_are_biased(name: str, on_policy: bool) -> None:
    ours, truth = expected_gradient(name, 0, on_policy)
    assert float((ours - truth).abs().max()) > 0.02


def test_k1_alone_in_the_loss_has_no_expected_gradient_and_k3_that_of_the_other_divergence() -> None:
    ours, _ = expected_gradient("k1", 1, True)
    torch.testing.assert_close(ours, torch.zeros_like(ours), rtol=0, atol=1e-12)
    ours, _ = expected_gradient("k3", 1, True)
    logits, ref, _ = policies(1)
    forward = gradient((ref.exp() * (ref - torch.log_softmax(logits, 0))).sum(), logits)
    torch.testing.assert_close(ours, forward, rtol=0, atol=1e-12)


def test_clipped_policy_gradient_equals_its_definition_case_by_case() -> None:
    old = torch.zeros(6, dtype=torch.float64)
    ratio = torch.tensor([0.5, 0.9, 1.0, 1.2, 1.5, 1.5], dtype=torch.float64)
    advantage = torch.tensor([1.0, -1.0, 2.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    logprob = ratio.log().requires_grad_()
    values = functions.clipped_policy_gradient(logprob, old, advantage, clip_low=0.2, clip_high=0.3)
    expected = torch.tensor([-0.5, 0.9, -2.0, -1.2, -1.3, 1.5], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-12)
    [grad] = torch.autograd.grad(values.sum(), logprob)
    torch.testing.assert_close(grad, torch.tensor([-0.5, 0.9, -2.0, -1.2, 0.0, 1.5], dtype=torch.float64))
    share = functions.clipped_share(logprob, old, advantage, 0.2, 0.3)
    assert share.tolist() == [0, 0, 0, 0, 1, 0]
    low = functions.clipped_share(torch.tensor([0.5]).log(), torch.zeros(1), torch.tensor([-1.0]), 0.2, 0.3)
    assert low.tolist() == [1]


def test_a_ratio_beyond_any_float_stays_a_number() -> None:
    logprob = torch.tensor([200.0, 200.0, 200.0], requires_grad=True)
    advantage = torch.tensor([1.0, 0.0, -1.0])
    values = functions.clipped_policy_gradient(logprob, torch.zeros(3), advantage)
    [grad] = torch.autograd.grad(values.sum(), logprob)
    assert torch.isfinite(values).all() and torch.isfinite(grad).all() and grad[0] == 0


def test_cross_entropy_equals_torch() -> None:
    logits = torch.randn(7, 11, dtype=torch.float64, requires_grad=True)
    target, weight = torch.arange(7), torch.rand(7, dtype=torch.float64)
    ours = functions.cross_entropy(torch.log_softmax(logits, -1).gather(1, target[:, None])[:, 0], weight).sum()
    theirs = (torch.nn.functional.cross_entropy(logits, target, reduction="none") * weight).sum()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(gradient(ours, logits), gradient(theirs, logits))


# tokens 0-2 in sequence 0, 3 in sequence 1 (group 0); 4-5 in sequence 2 (group 1); token 6 shared by sequences 1 and 2
SHARED = Incidence(7, np.array([0, 1, 2, 3, 4, 5, 6, 6]), np.array([0, 0, 0, 1, 2, 2, 1, 2]), np.array([0, 0, 1]))
VALUES = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])


@pytest.mark.parametrize(
    ("reduction", "expected"),
    [
        ("token_mean", 127 / 7),
        ("sequence_sum", 127 / 3),
        ("constant", 127 / (3 * 5)),
        ("weight_mean", 127 / 14),
        ("sequence_mean", (7 / 3 + (8 + 32) / 1.5 + (48 + 32) / 2.5) / 3),
        ("group_mean", ((15 + 32) / 4.5 + (48 + 32) / 2.5) / 2),
    ],
)
def test_reductions_equal_counting_by_hand(reduction: Reduction, expected: float) -> None:
    weights = fold(reduction, SHARED, weight=np.full(7, 2.0), constant=5.0)
    assert float(weights @ VALUES) == pytest.approx(expected, rel=1e-12)


def test_a_mean_of_ones_is_one_for_every_mean() -> None:
    for reduction in ("token_mean", "sequence_mean", "group_mean"):
        assert fold(reduction, SHARED).sum() == pytest.approx(1.0, rel=1e-12)


def test_a_missing_denominator_is_an_error() -> None:
    with pytest.raises(InputError, match="needs `constant`"):
        fold("constant", SHARED)
    with pytest.raises(InputError, match="not all zero"):
        fold("weight_mean", SHARED, weight=np.zeros(7))
    assert len(fold("token_mean", Incidence.flat([]))) == 0
