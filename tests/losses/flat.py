"""A small step of unequal sequences, and a term's loss on it, for tests of terms without a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from burnish.losses.build import build
from burnish.losses.reductions import Incidence, fold
from burnish.losses.spec import TermSpec
from burnish.losses.term import Term, TokenView

LENGTHS = (3, 6, 1, 4)
SEQUENCE = np.repeat(np.arange(len(LENGTHS)), LENGTHS)
TOKENS = len(SEQUENCE)


def draw(seed: int, low: float, high: float) -> Tensor:
    """Numbers [M], uniform."""
    return torch.from_numpy(np.random.default_rng(seed).uniform(low, high, TOKENS))


def signals(seed: int = 0, *, spread: float = 0.6, constant: bool = True) -> dict[str, Tensor]:
    """Log-probabilities of three policies, an advantage of both signs (one a sequence, or one a token), and more."""
    old = draw(seed, -3.0, -0.7)
    rng = np.random.default_rng(seed + 9)
    each = np.array([1.3, -0.8, 0.4, -1.1])[SEQUENCE] if constant else rng.normal(size=TOKENS)
    return {
        "policy_logprob": (old + draw(seed + 1, -spread, spread)).clamp(max=-1e-3),
        "old_logprob": old,
        "sampler_logprob": old + draw(seed + 2, -0.3, 0.3),
        "reference_logprob": old + draw(seed + 3, -1.0, 1.0),
        "policy_entropy": draw(seed + 4, 0.1, 2.0),
        "advantage": torch.from_numpy(each),
        "segment": torch.from_numpy(np.concatenate([np.arange(n) // 2 for n in LENGTHS]).astype(float)),
        "correction": draw(seed + 5, 0.0, 2.0),
    }


def loss_of(term: Term, values: dict[str, Tensor], incidence: Incidence | None = None) -> Tensor:
    """The reduced loss."""
    incidence = incidence or Incidence.flat(SEQUENCE)
    statistics = {name: values[name] for name in term.needs}
    view = TokenView(statistics, {n: values[n] for n in (term.stream, *term.reads)}, incidence)
    weights = torch.from_numpy(fold(term.reduction, incidence, constant=term.constant))
    return term.coefficient * (weights * term.function(view).values).sum()


def value_and_gradient(
    term: Term, values: dict[str, Tensor], incidence: Incidence | None = None
) -> tuple[float, Tensor]:
    """The loss, and its gradient in the policy's log-probabilities [M]."""
    leaf = values["policy_logprob"].clone().requires_grad_()
    loss = loss_of(term, {**values, "policy_logprob": leaf}, incidence)
    [gradient] = torch.autograd.grad(loss, leaf)
    return float(loss.detach()), gradient


def padded(values: Tensor, fill: float = 0.0) -> Tensor:
    """[M] as [sequences, longest]."""
    rows = torch.full((len(LENGTHS), max(LENGTHS)), fill, dtype=values.dtype)
    for row, part in enumerate(values.split(list(LENGTHS))):
        rows[row, : len(part)] = part
    return rows


def flat(rows: Tensor) -> Tensor:
    """[sequences, longest] as [M]."""
    return torch.cat([row[:n] for row, n in zip(rows, LENGTHS, strict=True)])


def sequences(values: Tensor) -> Sequence[list[float]]:
    """The values of each sequence."""
    return [part.tolist() for part in values.split(list(LENGTHS))]


def shown(spec: TermSpec, values: dict[str, Tensor]) -> dict[str, float]:
    """The token means of a term's diagnostics."""
    term = build(spec)
    view = TokenView({n: values[n] for n in term.needs}, values, Incidence.flat(SEQUENCE))
    return {name: float(each.mean()) for name, each in term.function(view).diagnostics.items()}
