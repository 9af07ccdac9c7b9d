"""Score centering: take away the drift towards the sampler that a policy gradient has even for a constant reward.

Tokens are drawn from q, gradients are taken through p. Then the expected gradient of A log p is E[A] times
sum_v q_v grad log p_v, and a covariance: the first has nothing to do with which token was better, and adds up. It is
subtracted, over the sampler's k most probable tokens H, with the tail modelled as q = rho p (Together AI 2026; the
identity is enumerated in tests/losses/test_centering.py).
"""

from __future__ import annotations

import torch
from torch import Tensor

from burnish.losses.ratios import capped

FLOOR = 1e-6
"""Least mass that is left for the tail."""


def score_centering(
    logprob: Tensor,
    sampler: Tensor,
    advantage: Tensor,
    top: Tensor,
    top_sampler: Tensor,
    weight: str,
    low: float,
    high: float,
) -> Tensor:
    """-A ( sg(w_y) log p_y - sum over v in H of sg(q_v w_v - alpha p_v) log p_v ), [M].

    `logprob` and `sampler` [M] are log p and log q of the sampled tokens, `top` and `top_sampler` [M, k] those of H; a
    place of H with a log q below -1e8 is empty. w is 1 (none), min(p / q, high) (tis), or p / q inside the band from
    low to high and else 0 (mis). With H the whole vocabulary the expected gradient of a constant A is 0.
    """
    there = top_sampler > -1e8
    top = torch.where(there, top, torch.zeros_like(top))
    q = torch.where(there, top_sampler.exp(), torch.zeros_like(top))
    p = torch.where(there, top.detach().exp(), torch.zeros_like(top))
    rho = (1 - q.sum(-1)).clamp(min=FLOOR) / (1 - p.sum(-1)).clamp(min=FLOOR)
    own = capped(logprob.detach() - sampler)
    if weight == "none":
        own, weighed, alpha = torch.ones_like(own), q, rho
    elif weight == "tis":
        own, weighed, alpha = own.clamp(max=high), torch.minimum(p, high * q), (high * rho).clamp(max=1.0)
    else:
        own = own * ((own >= low) & (own <= high))
        weighed = p * ((p >= low * q) & (p <= high * q))
        alpha = ((rho * low <= 1) & (rho * high >= 1)).to(rho.dtype)
    drift = ((weighed - alpha[:, None] * p) * top).sum(-1)
    return -advantage * (own * logprob - drift)
