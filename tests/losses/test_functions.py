"""Losses against closed forms and exact enumeration; reductions against counting by hand."""

from __future__ import annotations

import re
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.losses import functions
from burnish.losses.build import build
from burnish.losses.reductions import Incidence, fold
from burnish.losses.spec import REFUSED_KL, KlEstimator, Reduction, ReferenceKlSpec


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


def loss_estimator(name: str, lp: Tensor, ref: Tensor, old: Tensor) -> Tensor:
    """An estimator as a loss; `k1_reward` and its like as a REINFORCE loss with the estimate in the reward."""
    if name.endswith("_reward"):
        return functions.kl_loss(name.removesuffix("_reward"), lp, ref, old).detach() * lp
    return functions.kl_loss(name, lp, ref, old)


def expected_gradient(name: str, seed: int, on_policy: bool) -> tuple[Tensor, Tensor]:
    """Expected gradient of an estimator over the sampling policy, by enumeration, and the true KL gradient."""
    logits, ref, old = policies(seed)
    logp = torch.log_softmax(logits, 0)
    sampled_from = logp.detach() if on_policy else old
    value = (sampled_from.exp() * loss_estimator(name, logp, ref, sampled_from)).sum()
    return gradient(value, logits), true_kl_gradient(logits, ref)


def error(name: str, on_policy: bool = True) -> float:
    pairs = [expected_gradient(name, seed, on_policy) for seed in range(5)]
    return max(float((ours - truth).abs().max()) for ours, truth in pairs)


RIGHT = {"k2", "k1_ratio", "k3_ratio", "k1_reward"}


@pytest.mark.parametrize("name", [n for n in get_args(KlEstimator) if n not in ("k3_forward", "top_k")])
def test_an_estimator_is_refused_exactly_where_its_gradient_is_wrong(name: str) -> None:
    """The table of estimators by placement, each cell enumerated on six symbols."""
    assert (error(name) < 1e-12) == (name in RIGHT) == (name not in REFUSED_KL)
    if name in REFUSED_KL:
        assert error(name) > 0.02
        with pytest.raises(InputError, match=re.escape(REFUSED_KL[name])):
            build(ReferenceKlSpec.model_validate({"estimator": name}))


@pytest.mark.parametrize("name", ["k1_ratio", "k3_ratio"])
def test_with_the_ratio_an_estimator_is_right_off_policy_too(name: str) -> None:
    assert error(name, on_policy=False) < 1e-12


def test_without_the_ratio_it_is_right_on_policy_alone() -> None:
    assert error("k2", on_policy=False) > 0.02


def test_k1_alone_in_the_loss_has_no_expected_gradient_and_k3_that_of_the_other_divergence() -> None:
    ours, _ = expected_gradient("k1", 1, True)
    torch.testing.assert_close(ours, torch.zeros_like(ours), rtol=0, atol=1e-12)
    for name in ("k3", "k3_forward"):
        ours, _ = expected_gradient(name, 1, True)
        logits, ref, _ = policies(1)
        forward = gradient((ref.exp() * (ref - torch.log_softmax(logits, 0))).sum(), logits)
        torch.testing.assert_close(ours, forward, rtol=0, atol=1e-12)


def test_over_all_tokens_the_top_kl_is_the_divergence_and_over_some_a_lower_bound() -> None:
    logits, ref, _ = policies(3)
    logp = torch.log_softmax(logits, 0)
    full = (logp.exp() * (logp - ref)).sum()
    whole = functions.kl_top(logp[None], ref[None])[0]
    torch.testing.assert_close(whole, full, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(gradient(whole, logits), true_kl_gradient(logits, ref), rtol=0, atol=1e-7)
    bounds = []
    for k in range(1, 6):
        ids = torch.topk(logp, k).indices
        bounds.append(float(functions.kl_top(torch.log_softmax(logits, 0)[ids][None], ref[ids][None]).detach()))
    assert bounds == sorted(bounds) and 0 < bounds[0] < bounds[-1] <= float(full.detach()) + 1e-9
    padded = [torch.cat([x, torch.full((2,), -1e30, dtype=x.dtype)])[None] for x in (logp, ref)]
    torch.testing.assert_close(functions.kl_top(*padded)[0], whole)


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
