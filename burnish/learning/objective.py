"""An optimizer step's loss: the sum of its terms, with every denominator folded in before micro-batches exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from burnish.learning.collect import StepTokens
from burnish.losses.reductions import Incidence, fold
from burnish.losses.term import Need, Term, TokenView


@dataclass
class _Folded:
    """A term with its tokens and weights over the whole optimizer step."""

    term: Term
    name: str
    """The term's name, numbered when an earlier term has the same."""
    mine: Tensor
    """Which of the step's tokens belong to the term, bool [M]."""
    count: int
    """How many do."""
    weights: Tensor
    """coefficient x folded weight, [M]; 0 off the term's tokens."""
    incidence: Incidence
    """Of all M tokens."""


class Objective:
    """The loss of one optimizer step as a function of token statistics, evaluated in parts or as a whole."""

    def __init__(self, step: StepTokens, terms: Sequence[Term], device: torch.device) -> None:
        self.step = step
        self.needs: frozenset[Need] = frozenset().union(*(t.needs for t in terms))
        self.linear = all(t.linear for t in terms)
        """No gradient depends on a statistic's value."""
        self.token_scope = all(t.scope == "token" for t in terms)
        self._signals = {name: torch.from_numpy(values).to(device) for name, values in step.signals.items()}
        self._folded: list[_Folded] = []
        for term in terms:
            self._folded.append(self._fold(term, device))
        self._sums: dict[str, Tensor] = {}
        """By name, float64 scalars where the statistics are: a GPU is waited for when the step is over."""

    def _fold(self, term: Term, device: torch.device) -> _Folded:
        stream = self.step.signals[term.stream]
        mine = ~np.isnan(stream)
        weights = np.zeros(len(stream))
        weights[mine] = term.coefficient * fold(
            term.reduction, self.step.incidence.select(mine), weight=stream[mine], constant=term.constant
        )
        same = sum(part.term.name == term.name for part in self._folded)
        name = term.name if not same else f"{term.name}_{same + 1}"
        return _Folded(
            term, name, torch.from_numpy(mine).to(device), int(mine.sum()), torch.from_numpy(weights).to(device),
            self.step.incidence,
        )  # fmt: skip

    def loss(self, statistics: dict[str, Tensor], tokens: Tensor) -> Tensor:
        """The part of the loss that lies on the flat tokens [m], given their statistics [m]. Parts add up.

        For terms of a wider scope `tokens` must be all of them.
        """
        total = next(iter(statistics.values())).new_zeros(())
        for part in self._folded:
            mine = {n: statistics[n] for n in part.term.needs}
            chosen = tokens
            if part.count < len(self.step):  # choosing among them is waited for on a GPU
                here = part.mine[tokens]
                chosen, mine = tokens[here], {n: values[here] for n, values in mine.items()}
            if not len(chosen):
                continue
            dtype = total.dtype
            view = TokenView(
                mine,
                {n: self._signals[n][chosen].to(dtype) for n in (part.term.stream, *part.term.reads)},
                self._incidence(part, chosen),
            )
            result = part.term.function(view)
            value = (part.weights[chosen].to(dtype) * result.values).sum()
            total = total + value
            self._add(part, value.detach().double(), result.diagnostics)
        return total

    def _incidence(self, part: _Folded, chosen: Tensor) -> Incidence:
        if part.term.scope == "token":
            return Incidence.flat(np.zeros(len(chosen), dtype=np.int64))
        keep = np.zeros(len(self.step), dtype=bool)
        keep[chosen.cpu().numpy()] = True
        return part.incidence.select(keep)

    def _add(self, part: _Folded, value: Tensor, diagnostics: dict[str, Tensor]) -> None:
        sums = {f"loss/{part.name}": value}
        for key, values in diagnostics.items():
            key = key if part.name == part.term.name else f"{part.name}/{key}"
            sums[key] = values.detach().double().sum() / part.count
        for key, summand in sums.items():
            self._sums[key] = self._sums[key] + summand if key in self._sums else summand

    def record(self) -> dict[str, float]:
        """Loss, each term's share of it, token means of the diagnostics, trained tokens: after every part was seen."""
        sums = dict(zip(self._sums, torch.stack(list(self._sums.values())).tolist(), strict=True)) if self._sums else {}
        losses = [value for name, value in sums.items() if name.startswith("loss/")]
        return {"loss": sum(losses), **sums, "trained_tokens": float(len(self.step))}
