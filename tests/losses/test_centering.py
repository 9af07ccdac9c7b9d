"""Score centering by exact enumeration: the drift of a constant reward, and what the top k leave of it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from burnish.losses.build import build
from burnish.losses.centering import score_centering
from burnish.losses.reductions import Incidence
from burnish.losses.spec import CenteringSettings, ScoreCenteringSpec
from burnish.losses.term import TokenView

V = 40
BANDS = {"none": (0.0, 2.0), "tis": (0.0, 2.0), "mis": (0.5, 5.0)}


def policies(seed: int = 0, shift: float = 1.3) -> tuple[Tensor, Tensor]:
    """Logits of the learner, log-probabilities of a sampler that is quite another; most mass on few symbols."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2.5 * torch.randn(V, dtype=torch.float64, generator=generator)
    other = logits + shift * torch.randn(V, dtype=torch.float64, generator=generator)
    return logits.requires_grad_(), torch.log_softmax(other, 0)


def expected_gradient(weight: str, k: int, reward: Tensor, *, centred: bool = True) -> Tensor:
    """Of every symbol that may be drawn, weighed with the sampler's probabilities."""
    logits, q = policies()
    p = torch.log_softmax(logits, 0)
    ids = torch.topk(q, k).indices
    top, top_q = p[ids].expand(V, k), q[ids].expand(V, k)
    if not centred:
        top_q = torch.full_like(top_q, -1e30)
    values = score_centering(p, q, reward, top, top_q, weight, *BANDS[weight])
    if not centred:  # an empty H still models a tail: take the plain weighted score
        own = {"none": torch.ones(V), "tis": (p - q).exp().clamp(max=2.0), "mis": (p - q).exp()}[weight].detach()
        own = own * ((own >= 0.5) & (own <= 5.0)) if weight == "mis" else own
        values = -reward * own * p
    return torch.autograd.grad((q.exp() * values).sum(), logits)[0]


ONES = torch.ones(V, dtype=torch.float64)


@pytest.mark.parametrize("weight", BANDS)
def test_a_constant_reward_has_no_expected_gradient_over_the_whole_vocabulary(weight: str) -> None:
    assert float(expected_gradient(weight, V, ONES, centred=False).norm()) > 0.02
    assert float(expected_gradient(weight, V, ONES).norm()) < 1e-12


@pytest.mark.parametrize("weight", BANDS)
def test_the_top_k_leave_less_of_the_drift_the_more_they_cover(weight: str) -> None:
    drift = float(expected_gradient(weight, V, ONES, centred=False).norm())
    few, many = (float(expected_gradient(weight, k, ONES).norm()) for k in (10, 36))
    assert many < 0.1 * drift and many < few < drift


@pytest.mark.parametrize("rho", [0.12, 0.8, 3.0])
@pytest.mark.parametrize("weight", BANDS)
def test_of_a_tail_that_is_as_modelled_nothing_is_left_either(weight: str, rho: float) -> None:
    """Outside of H the sampler is rho times the learner: the top 6 of 40 then take all of the drift away."""
    generator = torch.Generator().manual_seed(1)
    logits = (3 * torch.randn(V, dtype=torch.float64, generator=generator)).requires_grad_()
    p = torch.log_softmax(logits, 0)
    ids = torch.topk(p, 6).indices
    rest = 1 - float(p[ids].exp().sum().detach())
    q = rho * p.detach().exp()
    shape = torch.rand(6, dtype=torch.float64, generator=generator)
    q[ids] = shape / shape.sum() * (1 - rho * rest)
    assert bool((q > 0).all())
    q = q.log()
    values = score_centering(p, q, ONES, p[ids].expand(V, 6), q[ids].expand(V, 6), weight, *BANDS[weight])
    left = torch.autograd.grad((q.exp() * values).sum(), logits, retain_graph=True)[0]
    assert float(left.norm()) < 1e-12


def test_what_the_reward_says_of_a_symbol_is_left() -> None:
    """The gradient that remains is the covariance of reward and score under the sampler."""
    reward = torch.zeros(V, dtype=torch.float64)
    reward[3] = 1.0
    logits, q = policies()
    p, probabilities = torch.log_softmax(logits, 0), q.exp()
    mean = float((probabilities * reward).sum())
    covariance = -(probabilities * (reward - mean) * p).sum()
    plain = torch.autograd.grad(covariance, logits)[0]
    # centred with the reward itself as the advantage: E[A (score - E score)]
    logits, q = policies()
    p = torch.log_softmax(logits, 0)
    values = score_centering(p, q, reward, p.expand(V, V), q.expand(V, V), "none", 0.0, 2.0)
    ours = torch.autograd.grad((q.exp() * values).sum(), logits)[0]
    torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-13)


def test_without_a_mismatch_it_is_reinforce_in_expectation() -> None:
    logits, _ = policies()
    p = torch.log_softmax(logits, 0)
    q, reward = p.detach(), torch.linspace(-1, 2, V, dtype=torch.float64)
    values = score_centering(p, q, reward, p.expand(V, V), q.expand(V, V), "tis", 0.0, 2.0)
    ours = torch.autograd.grad((q.exp() * values).sum(), logits)[0]
    logits, _ = policies()
    plain = torch.autograd.grad(-(q.exp() * reward * torch.log_softmax(logits, 0)).sum(), logits)[0]
    torch.testing.assert_close(ours, plain, rtol=1e-10, atol=1e-13)


def test_places_without_a_token_change_nothing_and_give_no_nan() -> None:
    logits, q = policies()
    p = torch.log_softmax(logits, 0)
    top, top_q = p[:5].expand(V, 5), q[:5].expand(V, 5)
    padded = torch.cat([top, torch.full((V, 2), -torch.inf, dtype=torch.float64)], 1)
    padded_q = torch.cat([top_q, torch.full((V, 2), -1e30, dtype=torch.float64)], 1)
    for weight, band in BANDS.items():
        one = score_centering(p, q, ONES, top, top_q, weight, *band)
        other = score_centering(p, q, ONES, padded, padded_q, weight, *band)
        torch.testing.assert_close(one, other)
        assert torch.isfinite(torch.autograd.grad(other.sum(), logits, retain_graph=True)[0]).all()


def test_the_term_reads_what_the_sampler_recorded_and_tells_the_mass() -> None:
    logits, q = policies()
    p = torch.log_softmax(logits, 0)
    ids = torch.topk(q, 5).indices
    one = {"policy_logprob": p[:2], "policy_top_logprobs": p[ids].expand(2, 5)}
    read = {"sampler_logprob": q[:2], "top_logprobs": q[ids].expand(2, 5), "advantage": ONES[:2], "top_ids": ONES}
    result = build(ScoreCenteringSpec()).function(TokenView(one, read, Incidence.flat([0, 0])))
    expected = score_centering(p[:2], q[:2], ONES[:2], p[ids].expand(2, 5), q[ids].expand(2, 5), "tis", 0.5, 2.0)
    torch.testing.assert_close(result.values, expected)
    assert float(result.diagnostics["covered_mass"][0].detach()) == pytest.approx(float(q[ids].exp().sum()))


def test_limits_follow_the_weight() -> None:
    assert CenteringSettings().band == (0.0, 2.0) and CenteringSettings(weight="mis").band == (0.5, 5.0)
    with pytest.raises(ValueError, match="low: unused with weight tis"):
        CenteringSettings(low=0.1)
    with pytest.raises(ValueError, match="the band from 6 to 5 is empty"):
        CenteringSettings(weight="mis", low=6)
