"""Terms of a loss as data: what a method declares and a recipe may set. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Reduction = Literal["token_mean", "sequence_mean", "sequence_sum", "group_mean", "weight_mean", "constant"]
"""How per-token values become one number, with every denominator counted over a whole optimizer step.

* `token_mean`: sum over trained tokens / number of trained tokens (DAPO, CISPO).
* `sequence_mean`: mean over sequences of the mean over their tokens (GRPO).
* `sequence_sum`: mean over sequences of the sum over their tokens (RLOO).
* `group_mean`: mean over groups of the mean over their tokens (ScaleRL's prompt mean).
* `weight_mean`: sum over tokens / sum of the tokens' weights (weighted cross-entropy).
* `constant`: sum over tokens / (sequences x `constant`) (Dr. GRPO with constant = longest answer).
"""

PolicyReduction = Literal["token_mean", "sequence_mean", "sequence_sum", "group_mean", "constant"]
"""Reductions that make sense for advantages, which may all be zero."""

KlEstimator = Literal["k2", "k3_ratio", "k1_ratio", "k3"]
"""Reference-KL estimators placed in the loss (Schulman's names, d = log pi - log ref).

`k2` (d^2 / 2) has the right gradient on-policy; `k3_ratio` and `k1_ratio` multiply by the differentiable ratio to the
sampling policy and are right off-policy too; plain `k3` follows another divergence's gradient and is warned about.
"""


class TermSpec(BaseModel):
    """What every term has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    coefficient: float = Field(default=1.0, description="Factor of this term in the loss")
    learner: str = Field(default="policy", description="Name of the model this term trains")
    reduction: Reduction = Field(default="token_mean", description="How token values become one number")
    constant: float | None = Field(default=None, gt=0, description="Tokens per sequence for reduction 'constant'")


class CrossEntropySpec(TermSpec):
    """Weighted cross-entropy on the tokens that carry the signal `stream`."""

    kind: Literal["cross_entropy"] = "cross_entropy"
    stream: str = "ce_weight"
    reduction: Reduction = "weight_mean"


class PolicyGradientSpec(TermSpec):
    """Clipped policy gradient with its own clip on either side (PPO, GRPO; clip-higher of DAPO)."""

    kind: Literal["policy_gradient"] = "policy_gradient"
    stream: str = "advantage"
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="The ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(default=0.2, ge=0, description="The ratio is clipped above at 1 + clip_high")
    old: Literal["sampler", "learner"] = Field(
        default="sampler",
        description="Log-probabilities in the ratio's denominator: the sampler's own, or the learner's re-score",
    )


class ReferenceKlSpec(TermSpec):
    """KL divergence from a reference model, with a correct gradient."""

    kind: Literal["reference_kl"] = "reference_kl"
    stream: str = "advantage"
    estimator: KlEstimator = "k3_ratio"
    reference: str = Field(default="reference", description="Name of the reference model")


class EntropySpec(TermSpec):
    """Entropy bonus: minus the entropy of the policy at its sampled tokens."""

    kind: Literal["entropy"] = "entropy"
    stream: str = "advantage"
