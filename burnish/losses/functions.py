"""Losses as pure functions of flat tokens: every argument has shape [M], one entry per trained token.

They return per-token values [M]; reductions (losses/reductions.py) turn them into one number. Differentiable in
`logprob` and `entropy`; every other argument is a constant.
"""

from __future__ import annotations

import torch
from torch import Tensor

from burnish.losses.ratios import capped


def cross_entropy(logprob: Tensor, weight: Tensor) -> Tensor:
    """Weighted negative log-likelihood, -weight * log pi."""
    return -weight * logprob


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
    return values * capped(logprob - old_logprob)


def kl_top(logprobs: Tensor, reference: Tensor) -> Tensor:
    """KL(pi || ref) over k tokens and the rest as one, [M], of their log-probabilities [M, k] under either.

    Never above the divergence over the whole vocabulary, which it is where the k are all of it. A place whose
    log-probability under the policy is below -1e8 is empty.
    """
    there = (logprobs > -1e8) & (reference > -1e8)
    logs, refs = (torch.where(there, x, torch.zeros_like(x)) for x in (logprobs, reference))
    p, r = (torch.where(there, x.exp(), torch.zeros_like(x)) for x in (logs, refs))
    rest, other = ((1 - x.sum(-1)).clamp(min=1e-9) for x in (p, r))
    return (p * (logs - refs)).sum(-1) + rest * (rest / other).log()


def kl_loss(estimator: str, logprob: Tensor, reference_logprob: Tensor, old_logprob: Tensor) -> Tensor:
    """An estimator of KL(pi || ref) as a loss, by name: a k, `_ratio` where it is weighted with pi / old."""
    base = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}[estimator[:2]]
    values = base(logprob, reference_logprob)
    return ratio_weighted(values, logprob, old_logprob) if estimator.endswith("_ratio") else values
