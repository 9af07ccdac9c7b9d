"""Reductions folded into per-token weights, counted over a whole optimizer step (promise E1).

The weights are computed once, before any micro-batch exists; micro-batches then merely add. A trained token that
several sequences share (a prefix) counts once: each of its L sequences takes a share of 1 / L.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.losses.spec import Reduction


@dataclass(frozen=True)
class Incidence:
    """Which token lies in which sequence: pairs (token [K], sequence [K]), and each sequence's group [S].

    `tokens` is the number M of trained tokens. Sequences and groups without a trained token have no pair and are
    not counted.
    """

    tokens: int
    token: npt.NDArray[np.int64]
    sequence: npt.NDArray[np.int64]
    group: npt.NDArray[np.int64]

    @classmethod
    def flat(cls, sequence: npt.ArrayLike, group: npt.ArrayLike | None = None) -> Incidence:
        """The incidence of tokens [M] that each lie in one sequence, given by index."""
        index = np.asarray(sequence, dtype=np.int64)
        count = int(index.max()) + 1 if index.size else 0
        groups = np.arange(count) if group is None else np.asarray(group, dtype=np.int64)
        return cls(len(index), np.arange(len(index)), index, groups)

    def shares(self) -> npt.NDArray[np.float64]:
        """Each pair's share of its token, [K]: 1 / (number of sequences through the token)."""
        through = np.bincount(self.token, minlength=self.tokens)
        return 1.0 / through[self.token]

    def select(self, keep: npt.NDArray[np.bool_]) -> Incidence:
        """The incidence of the kept tokens alone, renumbered."""
        renumbered = np.cumsum(keep) - 1
        pairs = keep[self.token]
        return Incidence(int(keep.sum()), renumbered[self.token[pairs]], self.sequence[pairs], self.group)


def fold(
    reduction: Reduction,
    incidence: Incidence,
    *,
    weight: npt.NDArray[np.float64] | None = None,
    constant: float | None = None,
) -> npt.NDArray[np.float64]:
    """Per-token weights [M] such that the reduction of values v is sum(weights * v).

    `weight` [M] is the token weight for `weight_mean`, `constant` the tokens per sequence for `constant`. Raises
    InputError when they are missing or sum to nothing.
    """
    count = incidence.tokens
    if count == 0:
        return np.zeros(0)
    shares = incidence.shares()
    sequences = np.unique(incidence.sequence)
    if reduction == "token_mean":
        return np.full(count, 1.0 / count)
    if reduction == "weight_mean":
        total = 0.0 if weight is None else float(np.abs(weight).sum())
        if total == 0.0:
            raise InputError("reduction 'weight_mean' needs token weights that are not all zero")
        return np.full(count, 1.0 / total)
    if reduction == "constant":
        if constant is None:
            raise InputError("reduction 'constant' needs `constant`: the number of tokens per sequence")
        return np.full(count, 1.0 / (len(sequences) * constant))
    if reduction == "sequence_sum":
        return np.full(count, 1.0 / len(sequences))
    if reduction == "sequence_mean":
        unit, units = incidence.sequence, len(sequences)
    elif reduction == "group_mean":
        unit = incidence.group[incidence.sequence]
        units = len(np.unique(unit))
    else:
        raise InputError(f"unknown reduction {reduction!r}")
    tokens_per_unit = np.bincount(unit, weights=shares)
    return np.bincount(incidence.token, weights=shares / tokens_per_unit[unit], minlength=count) / units
