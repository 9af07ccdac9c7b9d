"""Surrogates: what a likelihood ratio and an advantage contribute to a loss, as pure functions [K] -> [K].

Each returns the values of the loss and where the surrogate takes the gradient away. They are differentiable in
`log_ratio` and `logprob`; the advantage is a constant. docs/methods/surrogates.md draws each against the ratio.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from burnish.losses.ratios import LogRatio, capped

Surrogate = tuple[Tensor, Tensor]
"""Values [K] of the loss, and bool [K]: the surrogate has no gradient there."""


def ppo(ratio: LogRatio, advantage: Tensor, low: float, high: float, dual: float | None = None) -> Surrogate:
    """-min(r A, clip(r, 1 - low, 1 + high) A); with `dual`, for A < 0 never more than dual |A|.

    Schulman et al. 2017 (1707.06347); asymmetric: DAPO (2503.14476); dual clip: Ye et al. 2020 (1912.09729), which is
    also INTELLECT-2's two-sided clip (2505.07291).
    """
    r = capped(ratio.values)
    gain = torch.minimum(r * advantage, r.clamp(1.0 - low, 1.0 + high) * advantage)
    off = ((r > 1.0 + high) & (advantage > 0)) | ((r < 1.0 - low) & (advantage < 0))
    if dual is not None:
        gain = torch.where(advantage < 0, torch.maximum(gain, dual * advantage), gain)
        off = off | ((r > dual) & (advantage < 0))
    return -gain, off


def cispo(ratio: LogRatio, advantage: Tensor, logprob: Tensor, low: float, high: float) -> Surrogate:
    """-sg(clip(r, 1 - low, 1 + high)) A log pi: the weight is clipped, every token keeps a gradient (2506.13585)."""
    weight = capped(ratio.values.detach()).clamp(1.0 - low, 1.0 + high)
    return -weight * advantage * logprob, torch.zeros_like(advantage, dtype=torch.bool)


def reinforce(advantage: Tensor, logprob: Tensor) -> Surrogate:
    """-A log pi, without a ratio (Williams 1992)."""
    return -advantage * logprob, torch.zeros_like(advantage, dtype=torch.bool)


def sapo(ratio: LogRatio, advantage: Tensor, positive: float, negative: float) -> Surrogate:
    """-(4 / tau) sigmoid(tau (r - 1)) A, tau by the sign of A: slope 1 at r = 1, fading away from it (2511.20347)."""
    tau = torch.full_like(advantage, negative).masked_fill(advantage > 0, positive)
    value = 4.0 / tau * torch.sigmoid(tau * (capped(ratio.values) - 1.0))
    return -value * advantage, torch.zeros_like(advantage, dtype=torch.bool)


def one_sided(gap: Tensor, advantage: Tensor, low: float, high: float) -> Surrogate:
    """GMPO's clip of token log-ratios, before the geometric mean: to `high` above where A > 0, to -`low` below where
    A < 0 (2507.20673)."""
    held = torch.where(advantage > 0, gap.clamp(max=high), torch.where(advantage < 0, gap.clamp(min=-low), gap))
    return held, ((gap > high) & (advantage > 0)) | ((gap < -low) & (advantage < 0))


def plain(ratio: LogRatio, advantage: Tensor) -> Surrogate:
    """-r A, with no clip."""
    return -capped(ratio.values) * advantage, torch.zeros_like(advantage, dtype=torch.bool)


def log_band(ratio: LogRatio, advantage: Tensor, low: float, high: float) -> Surrogate:
    """-exp(clip(log r, -low, high)) A: no gradient outside the band, whatever the sign of A (Kimi K2.5, 2602.02276)."""
    values = ratio.values
    return -torch.exp(values.clamp(-low, high)) * advantage, (values < -low) | (values > high)


def hard_band(ratio: LogRatio, advantage: Tensor, low: float, high: float) -> Surrogate:
    """-r A where 1 - low < r < 1 + high, else 0: DIS of GLM-5 and SAO (2602.15763, 2607.07508)."""
    r = capped(ratio.values)
    off = (r <= 1.0 - low) | (r >= 1.0 + high)
    return -torch.where(off, torch.zeros_like(r), r) * advantage, off


def squared(ratio: LogRatio, advantage: Tensor, logprob: Tensor, tau: float) -> Surrogate:
    """-A log pi + tau / 2 (log r)^2 of the sequence's whole product, in equal parts on its tokens (k1.5, 2501.12599).

    Of one token it is DRO's surrogate. With the sum over a sequence its value is -A log pi(y) + tau/2 log(r(y))^2.
    """
    pull = 0.5 * tau * ratio.length * ratio.values**2  # (T m)^2 / T, m the mean log-ratio of T tokens
    return pull - advantage * logprob, torch.zeros_like(advantage, dtype=torch.bool)


def divergence_mask(
    ratio: LogRatio, advantage: Tensor, logprob: Tensor, old: Tensor, threshold: float, by: str, cap: float = 20.0
) -> Surrogate:
    """-sg(min(r, cap)) A log pi, dropped where the token's probability has gone further than `threshold` the way that
    A pushes it: DPPO (2602.04879).

    `by` tv measures |pi - old|, kl the divergence of the two coins (pi, 1 - pi) and (old, 1 - old).
    """
    now, then = logprob.detach().exp(), old.exp()
    far = (now - then).abs() if by == "tv" else coin_kl(old, logprob.detach())
    off = (far > threshold) & (torch.sign(now - then) == torch.sign(advantage)) & (advantage != 0)
    weight = capped(ratio.values.detach()).clamp(max=cap)
    return -torch.where(off, torch.zeros_like(weight), weight) * advantage * logprob, off


def coin_kl(logprob: Tensor, other: Tensor) -> Tensor:
    """KL of the coin (p, 1 - p) from (q, 1 - q), of the log-probabilities log p and log q."""
    logprob, other = logprob.double(), other.double()  # in float32 the least room below 1 is none, and 0 * inf is NaN
    p, rest = logprob.exp(), torch.log1p(-logprob.exp().clamp(max=1 - 1e-12))
    other_rest = torch.log1p(-other.exp().clamp(max=1 - 1e-12))
    return p * (logprob - other) + (1 - p) * (rest - other_rest)


def share_of(count: int, share: float) -> int:
    """How many of `count` tokens a share of them is: at least one of any."""
    return min(count, max(1, math.floor(share * count)))
