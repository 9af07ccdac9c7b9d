"""Losses as pure functions of flat tokens: every argument has shape [M], one entry per trained token.

They return per-token values [M]; reductions (losses/reductions.py) turn them into one number. Differentiable in
`logprob` and `entropy`; every other argument is a constant.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cross_entropy(logprob: Tensor, weight: Tensor) -> Tensor:
    """Weighted negative log-likelihood, -weight * log pi."""
    return -weight * logprob


def clipped_policy_gradient(
    logprob: Tensor, old_logprob: Tensor, advantage: Tensor, clip_low: float = 0.2, clip_high: float = 0.2
) -> Tensor:
    """-min(r A, clip(r, 1 - clip_low, 1 + clip_high) A) with r = pi / old.

    Schulman et al. 2017 (1707.06347), with the asymmetric clip of DAPO (2503.14476). On-policy (r = 1) its gradient
    is that of REINFORCE, -A * grad log pi.
    """
    ratio = _ratio(logprob, old_logprob)
    clipped = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio * advantage, clipped * advantage)


def _ratio(logprob: Tensor, old_logprob: Tensor) -> Tensor:
    """pi / old; far beyond any clip the log-ratio stops growing, so that infinity times zero never becomes NaN."""
    return torch.exp((logprob - old_logprob).clamp(max=40.0))


def clipped_share(
    logprob: Tensor, old_logprob: Tensor, advantage: Tensor, clip_low: float = 0.2, clip_high: float = 0.2
) -> Tensor:
    """1 where clipping removed the token's gradient, 0 elsewhere."""
    ratio = torch.exp(logprob.detach() - old_logprob)
    high = (ratio > 1.0 + clip_high) & (advantage > 0)
    low = (ratio < 1.0 - clip_low) & (advantage < 0)
    return (high | low).to(logprob.dtype)


def kl_k1(logprob: Tensor, reference_logprob: Tensor) -> Tensor:
    """d = log pi - log ref: the unbiased value of KL(pi || ref); as a loss on its own its expected gradient is zero."""
    return logprob - reference_logprob


def kl_k2(logprob: Tensor, reference_logprob: Tensor) -> Tensor:
    """d^2 / 2: on tokens sampled from pi its gradient is that of KL(pi || ref), though its value is biased."""
    return 0.5 * (logprob - reference_logprob) ** 2


def kl_k3(logprob: Tensor, reference_logprob: Tensor) -> Tensor:
    """exp(-d) + d - 1: unbiased and non-negative as a value; as a loss it follows the gradient of KL(ref || pi)."""
    d = logprob - reference_logprob
    return torch.exp(-d) + d - 1.0


def ratio_weighted(values: Tensor, logprob: Tensor, old_logprob: Tensor) -> Tensor:
    """values * pi / old with the ratio differentiable: makes k1 and k3 right in the loss, also off-policy.

    This is the fix of DeepSeek-V3.2 for a KL term in the loss.
    """
    return values * _ratio(logprob, old_logprob)
