"""Which tokens of a whole step a rule picks: by the covariance of log-probability and advantage, or by entropy.

Tokens whose log-probability and advantage are high together are those that entropy is lost by (Cui et al. 2025,
arXiv 2505.22617). What is picked depends on every token of the step, so these belong to terms of step scope.
"""

from __future__ import annotations

import torch
from torch import Tensor

from burnish.losses.surrogates import share_of
from burnish.randomness import counter_generator, stable_hash

TIE = 1e-5
"""Values no further apart are equal: rounding makes no more of equal ones in float32."""


def covariance(logprob: Tensor, advantage: Tensor) -> Tensor:
    """(log pi - its mean) (A - its mean), [M], the means over all M tokens; a constant."""
    logprob = logprob.detach()
    return (logprob - logprob.mean()) * (advantage - advantage.mean())


def drawn_in_band(values: Tensor, low: float, high: float, share: float, seed: int = 0) -> Tensor:
    """Clip-Cov's choice: a random `share` of all M tokens, taken from those with low <= value <= high. Bool [M].

    The draw is a function of the seed and of which tokens lie in the band.
    """
    inside = torch.nonzero((values >= low) & (values <= high))[:, 0].cpu().numpy()
    chosen = torch.zeros(len(values), dtype=torch.bool, device=values.device)
    if len(inside):
        number = stable_hash(f"{len(values)} {inside.tobytes().hex()}")
        drawn = counter_generator(seed, stable_hash("burnish.losses.covariance"), number).permutation(inside)
        chosen[torch.from_numpy(drawn[: share_of(len(values), share)]).to(values.device)] = True
    return chosen


def highest(values: Tensor, share: float) -> Tensor:
    """The `share` of the M tokens with the highest values, bool [M], and those that tie with the last of them.

    Samples begin alike, so equal values are common; which of them is a hair above the other depends on the layout.
    """
    if not len(values):
        return torch.zeros(0, dtype=torch.bool, device=values.device)
    values = values.detach()
    last = torch.topk(values, share_of(len(values), share)).values[-1]
    return values >= last - TIE
