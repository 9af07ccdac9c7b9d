"""Terms of a loss as data: what a method declares and a recipe may set. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

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

KlEstimator = Literal[
    "k2", "k3_ratio", "k1_ratio", "k3_forward", "k1", "k3", "k2_ratio", "k1_reward", "k2_reward", "k3_reward",
    "top_k",
]  # fmt: skip
"""Estimators of KL(policy || reference) by where they stand (Schulman's names, d = log pi - log ref).

As a loss: `k2` (d^2 / 2) has the right gradient on-policy; `k3_ratio` and `k1_ratio` multiply by the differentiable
ratio to the sampling policy and are right off-policy too. In the reward, as a constant: `k1_reward`. `k3_forward` is
plain k3 as a loss, named by the divergence whose gradient it follows, KL(reference || policy). `top_k` is no estimate
from one token but the sum over the sampler's k most probable ones and the rest as one: a lower bound of the divergence
at each token, and the divergence itself where k is the vocabulary. The others have a wrong gradient and are refused:
`REFUSED_KL` says why.
"""

REFUSED_KL: dict[str, str] = {
    "k1": "d as a loss has a gradient of zero in expectation, so nothing holds the policy; use k1_reward or k2",
    "k3": "k3 as a loss follows the gradient of KL(reference || policy), not of the KL that it reports; use k3_ratio "
    "or k2, or k3_forward if that other divergence is meant",
    "k2_ratio": "d^2 / 2 times the ratio is biased: k2's gradient is right without a ratio; use k2, k1_ratio or "
    "k3_ratio",
    "k2_reward": "d^2 / 2 in the reward is not the KL, whose gradient needs d itself; use k1_reward",
    "k3_reward": "k3 in the reward is biased: as a constant only d has the right gradient; use k1_reward",
}
"""Estimators whose gradient is not that of KL(policy || reference) where they stand, with the reason."""

RatioLevel = Literal["token", "sequence", "sequence_token", "segment", "prefix"]
"""What a likelihood ratio is taken of: losses/ratios.py."""

SurrogateName = Literal[
    "ppo", "cispo", "reinforce", "sapo", "gmpo", "log_band", "hard_band", "squared", "divergence_mask"
]
"""What a ratio and an advantage contribute to the loss: losses/surrogates.py."""

SURROGATE_KEYS: dict[SurrogateName, frozenset[str]] = {
    "ppo": frozenset({"clip_low", "clip_high", "dual_clip"}),
    "cispo": frozenset({"clip_low", "clip_high"}),
    "reinforce": frozenset(),
    "sapo": frozenset({"soft_positive", "soft_negative"}),
    "gmpo": frozenset({"clip_low", "clip_high"}),
    "log_band": frozenset({"clip_low", "clip_high"}),
    "hard_band": frozenset({"clip_low", "clip_high"}),
    "squared": frozenset({"tau"}),
    "divergence_mask": frozenset({"divergence", "threshold"}),
}
"""The settings that each surrogate reads."""

SURROGATE_LEVELS: dict[SurrogateName, frozenset[str]] = {
    "reinforce": frozenset({"token"}),
    "gmpo": frozenset({"sequence", "segment"}),
    "squared": frozenset({"token", "sequence", "segment"}),
    "divergence_mask": frozenset({"token"}),
}
"""The levels of ratio that a surrogate is defined for; one that is not here takes every level."""


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


class CovarianceSpec(BaseModel):
    """What is done about the few tokens that entropy is lost by (Cui et al. 2025, arXiv 2505.22617)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Literal["clip", "kl"] = Field(
        default="clip",
        description="clip: a random share of the tokens with a covariance in the band gets no gradient (Clip-Cov); "
        "kl: the share with the highest covariance is held to the older policy (KL-Cov)",
    )
    share: float = Field(default=2e-4, gt=0, le=1, description="share of a step's tokens, at least one")
    low: float = Field(default=1.0, allow_inf_nan=False, description="lower end of the band, for rule clip")
    high: float = Field(default=5.0, allow_inf_nan=False, description="upper end of the band, for rule clip")
    coefficient: float = Field(default=1.0, gt=0, description="of abs(log ratio), for rule kl")

    @model_validator(mode="after")
    def _used(self) -> CovarianceSpec:
        other = ("coefficient",) if self.rule == "clip" else ("low", "high")
        for key in other:
            if getattr(self, key) != type(self).model_fields[key].default:
                raise ValueError(f"{key}: unused with rule {self.rule}; remove it")
        if self.low >= self.high:
            raise ValueError(f"low: the band from {self.low:g} to {self.high:g} is empty; lower it")
        return self


class CenteringSettings(BaseModel):
    """Score centering: what a sampler that is not the learner would do to a constant reward is taken away."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    k: int = Field(default=128, ge=1, description="most probable tokens of the sampler that are looked at")
    weight: Literal["none", "tis", "mis"] = Field(
        default="tis",
        description="weight of a token: 1; min(pi / sampler, high); or pi / sampler from low to high, else 0",
    )
    low: float | None = Field(default=None, ge=0, description="lower limit, for mis; absent: 0.5")
    high: float | None = Field(default=None, gt=0, description="upper limit; absent: 2 for tis, 5 for mis")
    least_mass: float = Field(default=0.9, gt=0, le=1, description="mass that the k tokens must cover on average")

    @model_validator(mode="after")
    def _used(self) -> CenteringSettings:
        if self.low is not None and self.weight != "mis":
            raise ValueError(f"low: unused with weight {self.weight}; it is for mis")
        if self.high is not None and self.weight == "none":
            raise ValueError("high: unused with weight none; it is for tis and mis")
        low, high = self.band
        if low >= high:
            raise ValueError(f"low: the band from {low:g} to {high:g} is empty; lower it")
        return self

    @property
    def band(self) -> tuple[float, float]:
        """The limits of the weight."""
        default = 5.0 if self.weight == "mis" else 2.0
        low = (0.5 if self.low is None else self.low) if self.weight == "mis" else 0.0
        return low, default if self.high is None else self.high


class PolicyGradientSpec(TermSpec):
    """A policy gradient: a surrogate of an advantage and of the ratio of the trained policy to an older one.

    Three policies are told apart. The *behaviour* policy is what sampled (`sampler_logprob`), the *proximal* one the
    learner at the start of the step (`old_logprob`), the *current* one is being trained.
    """

    kind: Literal["policy_gradient"] = "policy_gradient"
    stream: str = "advantage"
    surrogate: SurrogateName = "ppo"
    ratio: RatioLevel = "token"
    clip_low: float = Field(default=0.2, ge=0, description="The ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(default=0.2, ge=0, description="The ratio is clipped above at 1 + clip_high")
    dual_clip: float | None = Field(default=None, gt=1, description="Where A < 0, most that a ratio counts for")
    soft_positive: float = Field(default=1.0, gt=0, description="SAPO's tau where A > 0")
    soft_negative: float = Field(default=1.05, gt=0, description="SAPO's tau where A < 0")
    tau: float = Field(default=0.01, ge=0, description="Pull of the squared surrogate towards the older policy")
    divergence: Literal["tv", "kl"] = Field(default="tv", description="How far a token's probability has gone")
    threshold: float = Field(default=0.2, gt=0, description="How far it may go, for the divergence mask")
    old: Literal["sampler", "learner"] = Field(
        default="sampler",
        description="Log-probabilities in the ratio's denominator: the sampler's own, or the learner's re-score",
    )
    correction: str | None = Field(
        default=None, description="Signal with the weight of the proximal over the behaviour policy; needs old: learner"
    )
    covariance: CovarianceSpec | None = Field(default=None, description="Clip-Cov, a choice among a step's tokens")
    entropy_share: float = Field(
        default=1.0, gt=0, le=1, description="Only this share of a step's tokens, with the highest entropy, is trained"
    )


class ScoreCenteringSpec(TermSpec):
    """REINFORCE weighed for the sampler, less what its drift would be for a constant reward (losses/centering.py)."""

    kind: Literal["score_centering"] = "score_centering"
    stream: str = "advantage"
    weight: Literal["none", "tis", "mis"] = "tis"
    low: float = 0.5
    high: float = 2.0


class CovariancePenaltySpec(TermSpec):
    """KL-Cov: abs(log ratio) on the share of a step's tokens with the highest covariance."""

    kind: Literal["covariance_penalty"] = "covariance_penalty"
    stream: str = "advantage"
    share: float = 2e-4
    old: Literal["sampler", "learner"] = "sampler"


class DriftSpec(TermSpec):
    """The squared log-ratio to the older policy on every token: Kimi K2.5's anchor (2602.02276)."""

    kind: Literal["drift"] = "drift"
    stream: str = "advantage"
    old: Literal["sampler", "learner"] = "sampler"


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
