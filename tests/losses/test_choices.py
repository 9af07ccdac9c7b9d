"""What a term picks out of a step, and what it is weighed with: covariance, entropy, drift, correction."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from burnish.losses.build import build
from burnish.losses.spec import CovariancePenaltySpec, CovarianceSpec, DriftSpec, PolicyGradientSpec
from tests.losses.flat import TOKENS, shown, signals, value_and_gradient


def covariances(values: dict[str, torch.Tensor]) -> np.ndarray:
    lp, a = values["policy_logprob"].numpy(), values["advantage"].numpy()
    return (lp - lp.mean()) * (a - a.mean())


def test_clip_cov_takes_the_gradient_from_a_share_of_the_band() -> None:
    values = signals(4)
    cov = covariances(values)
    low, high = float(np.quantile(cov, 0.4)), float(np.quantile(cov, 0.95))
    chosen = CovarianceSpec(share=0.2, low=low, high=high)
    _, gradient = value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce", covariance=chosen)), values)
    _, plain = value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce")), values)
    stopped = np.flatnonzero(gradient.numpy() == 0)
    assert len(stopped) == math.floor(0.2 * TOKENS)
    assert ((cov[stopped] >= low) & (cov[stopped] <= high)).all()
    kept = gradient.numpy() != 0
    np.testing.assert_allclose(gradient.numpy()[kept], plain.numpy()[kept], rtol=1e-12)
    again, _ = value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce", covariance=chosen)), values)
    assert again == value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce", covariance=chosen)), values)[0]


def test_clip_cov_of_an_empty_band_changes_nothing() -> None:
    values = signals(4)
    spec = CovarianceSpec(low=50, high=60)
    ours = value_and_gradient(build(PolicyGradientSpec(covariance=spec)), values)
    theirs = value_and_gradient(build(PolicyGradientSpec()), values)
    assert ours[0] == theirs[0] and torch.equal(ours[1], theirs[1])


def test_kl_cov_holds_the_share_with_the_highest_covariance() -> None:
    values = signals(4)
    value, gradient = value_and_gradient(
        build(CovariancePenaltySpec(share=0.25, old="learner", coefficient=2.0)), values
    )
    top = np.argsort(covariances(values))[-math.floor(0.25 * TOKENS) :]
    gap = (values["policy_logprob"] - values["old_logprob"]).numpy()
    expected = np.zeros(TOKENS)
    expected[top] = 2.0 * np.sign(gap[top]) / TOKENS
    assert value == pytest.approx(2.0 * np.abs(gap[top]).sum() / TOKENS, rel=1e-12)
    np.testing.assert_allclose(gradient.numpy(), expected, rtol=1e-12)


def test_only_the_tokens_with_the_highest_entropy_are_trained() -> None:
    values = signals(6)
    _, gradient = value_and_gradient(build(PolicyGradientSpec(surrogate="reinforce", entropy_share=0.3)), values)
    top = set(np.argsort(values["policy_entropy"].numpy())[-math.floor(0.3 * TOKENS) :].tolist())
    assert set(np.flatnonzero(gradient.numpy()).tolist()) == top


def test_the_drift_term_is_the_square_of_the_log_ratio() -> None:
    values = signals(7)
    value, gradient = value_and_gradient(build(DriftSpec(old="learner", coefficient=0.5)), values)
    gap = values["policy_logprob"] - values["old_logprob"]
    assert value == pytest.approx(float(0.5 * (gap**2).mean()), rel=1e-12)
    torch.testing.assert_close(gradient, gap / TOKENS)


def test_a_correction_is_a_constant_weight_of_each_token() -> None:
    values = signals(8)
    plain = PolicyGradientSpec(old="learner", surrogate="reinforce")
    _, gradient = value_and_gradient(build(plain.model_copy(update={"correction": "correction"})), values)
    _, unweighted = value_and_gradient(build(plain), values)
    torch.testing.assert_close(gradient, unweighted * values["correction"])
    rho = (values["old_logprob"] - values["sampler_logprob"]).exp()
    told = shown(PolicyGradientSpec(old="learner", correction="correction"), values)
    assert told["mismatch_k3"] == pytest.approx(float((rho - 1 - rho.log()).mean()))
    assert told["mismatch_chi_square"] == pytest.approx(float((rho**2 - 1).mean()))
