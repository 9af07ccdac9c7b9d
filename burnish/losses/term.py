"""Terms: one summand of a loss, as the learner evaluates it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from burnish.losses.reductions import Incidence
from burnish.losses.spec import Reduction

Scope = Literal["token", "sequence", "pair", "group", "step"]
"""What a token's value may depend on: its own statistics alone, or those of its whole sequence, pair, group or step."""

Need = Literal["logprob", "policy_logprob", "policy_entropy", "policy_top_logprobs"]
"""Token statistics a term asks the learner for.

`logprob` is under the model's own distribution. The `policy_` ones are under the distribution that was sampled from:
the same temperature and the same kept support as the sampler used. `policy_top_logprobs` is [M, k]: of the tokens that
the signal `top_ids` [M, k] names, which the sampler found most probable.
"""


@dataclass(frozen=True)
class TokenView:
    """The trained tokens of one term, flat, [M] each; statistics are differentiable, signals are constants."""

    statistics: dict[str, Tensor]
    signals: dict[str, Tensor]
    incidence: Incidence

    def __getitem__(self, name: str) -> Tensor:
        if name in self.statistics:
            return self.statistics[name]
        return self.signals[name]


@dataclass(frozen=True)
class TermValues:
    """Per-token values [M] of a term, and per-token diagnostics [M] whose token means are reported."""

    values: Tensor
    diagnostics: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """One summand: coefficient * sum over tokens of (folded weight * value).

    `stream` names the signal that says which tokens belong to the term (present = not NaN) and `reads` the further
    signals it needs there. Per-token values of a token-scope term must depend on that token alone; the learner
    relies on it.
    """

    name: str
    stream: str
    function: Callable[[TokenView], TermValues]
    needs: frozenset[Need]
    reads: tuple[str, ...] = ()
    scope: Scope = "token"
    reduction: Reduction = "token_mean"
    constant: float | None = None
    coefficient: float = 1.0
    learner: str = "policy"
    linear: bool = False
    """Whether the values are weights times a statistic: then its own value, however rounded, does not change the
    gradient."""
    policy: bool = False
    """Whether `stream` weights a policy gradient: then promise E7 is checked again where tokens are gathered."""
