"""Likelihood ratios of the trained policy to an older one, at the level of tokens, segments, prefixes or sequences.

A ratio wider than a token belongs to a token *in a sequence*: a token that several sequences share (a prefix) has one
in each. So everything here runs over pairs [K] of a token and a sequence, and `Pairs.spread` brings the pairs of a
token together again, each with its share of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.losses.reductions import Incidence
from burnish.losses.spec import RatioLevel


@dataclass(frozen=True)
class Pairs:
    """Pairs of a token and a sequence it lies in, [K] each; those of a sequence stand together, in its order."""

    token: Tensor
    sequence: Tensor
    share: Tensor
    """The pair's share of its token: 1 / (number of sequences through it)."""
    tokens: int
    """M."""

    @classmethod
    def of(cls, incidence: Incidence, like: Tensor) -> Pairs:
        """The pairs of an incidence, with shares in the type and on the device of `like`."""
        token, sequence = (torch.from_numpy(a).to(like.device) for a in (incidence.token, incidence.sequence))
        share = torch.from_numpy(incidence.shares()).to(like.device, like.dtype)
        return cls(token, sequence, share, incidence.tokens)

    def spread(self, values: Tensor) -> Tensor:
        """Values of pairs [K] as values of tokens [M]: the mean over the sequences through a token."""
        return values.new_zeros(self.tokens).index_add(0, self.token, self.share * values)


@dataclass(frozen=True)
class LogRatio:
    """Log-ratios of pairs [K] or of tokens [M], and how many tokens share one."""

    values: Tensor
    length: Tensor


def mean_over(values: Tensor, unit: Tensor) -> LogRatio:
    """The mean of `values` [K] over each unit [K], given to all of its members: the log of a geometric mean."""
    count = int(unit.max()) + 1 if len(unit) else 0
    length = values.new_zeros(count).index_add(0, unit, torch.ones_like(values))
    sums = values.new_zeros(count).index_add(0, unit, values)
    return LogRatio((sums / length.clamp(min=1))[unit], length[unit])


def log_ratio(gap: Tensor, level: RatioLevel, pairs: Pairs, segment: Tensor | None = None) -> LogRatio:
    """Log-ratios [K] of a level from the log-ratios of tokens, `gap` [M] = log pi - log pi_old.

    * `token`: the token's own.
    * `sequence`: the mean over its sequence (GSPO, arXiv 2507.18071), differentiable in every token of it.
    * `sequence_token`: that value, with the gradient of the token's own (GSPO-token).
    * `segment`: the mean over the tokens of its sequence with the same `segment` [M] (LPO, arXiv 2606.15079).
    * `prefix`: the sum over the sequence up to and with the token (CTPO, arXiv 2605.07331).

    Raises InputError for a segment level without segments.
    """
    own = gap[pairs.token]
    if level == "token":
        return LogRatio(own, torch.ones_like(own))
    if level == "sequence":
        return mean_over(own, pairs.sequence)
    if level == "sequence_token":
        mean = mean_over(own.detach(), pairs.sequence)
        return LogRatio(mean.values + own - own.detach(), mean.length)
    if level == "prefix":
        return LogRatio(_up_to(own, pairs.sequence), torch.ones_like(own))
    if segment is None:
        raise InputError("ratio 'segment' needs the signal that says which segment each token is in")
    both = torch.stack([pairs.sequence, segment[pairs.token].long()])
    return mean_over(own, torch.unique(both, dim=1, return_inverse=True)[1])


def _up_to(values: Tensor, sequence: Tensor) -> Tensor:
    """Sums over each sequence up to and with every place, [K]; in float64, since the running sum is over the step."""
    total = torch.cumsum(values.double(), 0)
    first = torch.ones_like(sequence, dtype=torch.bool)
    first[1:] = sequence[1:] != sequence[:-1]
    starts = torch.nonzero(first)[:, 0]
    before = torch.cat([total.new_zeros(1), total])[starts]
    return (total - before[torch.cumsum(first, 0) - 1]).to(values.dtype)


def capped(values: Tensor) -> Tensor:
    """exp of log-ratios; far beyond any clip they stop growing, so that infinity times zero never becomes NaN."""
    return torch.exp(values.clamp(max=40.0))
