"""What a recipe of grpo, or of one of its presets, may set about the objective."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.losses.spec import (
    REFUSED_KL,
    SURROGATE_KEYS,
    SURROGATE_LEVELS,
    CenteringSettings,
    CovarianceSpec,
    KlEstimator,
    PolicyReduction,
    RatioLevel,
    SurrogateName,
)
from burnish.signals.spec import ESTIMATORS, AdvantageEstimator, Centre, CorrectionSettings, Scale, ShapingSettings


class SurrogateOptions(BaseModel):
    """Which ratio, and what is made of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratio: RatioLevel = Field(
        default="token",
        description="what the likelihood ratio is taken of: a token; a whole sequence, as a geometric mean (sequence; "
        "sequence_token with the gradient of the token's own); a segment of it; the prefix up to the token",
    )
    segment_tokens: int | None = Field(
        default=None, ge=1, description="sampled tokens of a segment, for ratio segment; absent: a turn is a segment"
    )
    surrogate: SurrogateName = Field(
        default="ppo", description="what ratio and advantage contribute to the loss; docs/methods/surrogates.md"
    )
    clip_low: float = Field(
        default=0.2, ge=0, le=1,
        description="the ratio is clipped below at 1 - clip_low; for gmpo and log_band the log-ratio at -clip_low",
    )  # fmt: skip
    clip_high: float = Field(
        default=0.28, ge=0,
        description="the ratio is clipped above at 1 + clip_high; for gmpo and log_band the log-ratio at clip_high",
    )  # fmt: skip
    dual_clip: float | None = Field(
        default=None, gt=1, description="where the advantage is negative, the most that a ratio counts for, for ppo"
    )
    soft_positive: float = Field(default=1.0, gt=0, description="tau of sapo where the advantage is positive")
    soft_negative: float = Field(default=1.05, gt=0, description="tau of sapo where it is negative")
    tau: float = Field(default=0.01, ge=0, description="pull towards the older policy, for squared")
    divergence: Literal["tv", "kl"] = Field(
        default="tv", description="how far a token's probability has gone, for divergence_mask: its difference, or a KL"
    )
    threshold: float = Field(default=0.2, gt=0, description="how far it may go, for divergence_mask")
    covariance: CovarianceSpec | None = Field(
        default=None, description="hold the tokens by which entropy is lost (Clip-Cov, KL-Cov)"
    )
    entropy_share: float = Field(
        default=1.0, gt=0, le=1, description="train only this share of a step's tokens, those with the highest entropy"
    )
    drift: float = Field(
        default=0.0, ge=0, description="coefficient of the squared log-ratio on every token (Kimi K2.5's anchor)"
    )

    @model_validator(mode="after")
    def _surrogate_reads(self) -> SurrogateOptions:
        mine = SURROGATE_KEYS[self.surrogate]
        readers = {key: [name for name, keys in SURROGATE_KEYS.items() if key in keys] for key in _ALL_KEYS}
        for key in sorted(_ALL_KEYS - mine):
            if self._changed(key):
                raise ValueError(
                    f"{key}: unused with surrogate {self.surrogate}; it is for {' and '.join(readers[key])}"
                )
        levels = SURROGATE_LEVELS.get(self.surrogate)
        if levels is not None and self.ratio not in levels:
            raise ValueError(f"surrogate: {self.surrogate} takes ratio: {' or '.join(sorted(levels))}; set that")
        if self.segment_tokens is not None and self.ratio != "segment":
            raise ValueError("segment_tokens: unused; it is for ratio: segment")
        return self

    def _changed(self, key: str) -> bool:
        return bool(getattr(self, key) != type(self).model_fields[key].default)


_ALL_KEYS = frozenset().union(*SURROGATE_KEYS.values())


class GrpoOptions(SurrogateOptions):
    """Settings of the objective. The defaults follow Dr. GRPO's advantage and DAPO's token mean."""

    advantage: AdvantageEstimator = Field(default="mean", description="how rewards of a group become advantages")
    centre: Centre = Field(default="mean", description="what a reward is compared with, for advantage group")
    scale: Scale = Field(default="none", description="what the difference is divided by, for advantage group")
    k: int | None = Field(default=None, ge=2, description="the best of how many samples, for advantage max_at_k")
    decay: float = Field(
        default=0.9, ge=0, lt=1, description="how much of a moving average is kept a step, for centre moving_average"
    )
    by: Literal["member", "state"] = Field(
        default="member",
        description="what is compared: the attempts at a prompt, or their turns that began in the same state",
    )
    reduction: PolicyReduction = Field(default="token_mean", description="how token values become one number")
    constant: float | None = Field(
        default=None, gt=0, description="tokens per sequence, for reduction constant; absent: sampling.max_tokens"
    )
    old: Literal["sampler", "learner"] = Field(
        default="sampler",
        description="log-probabilities in the ratio: those of the sampler, or the learner's own re-score",
    )
    correction: CorrectionSettings | None = Field(
        default=None,
        description="weigh or leave out what the sampler drew otherwise than the learner would, with old: learner",
    )
    centering: CenteringSettings | None = Field(
        default=None, description="score centering, with surrogate: reinforce; docs/methods/mismatch.md"
    )
    passes: int = Field(default=1, ge=1, description="passes over each batch of samples")
    kl: float = Field(
        default=0.0, ge=0, description="coefficient of the KL divergence from the starting policy; 0: no reference"
    )
    kl_estimator: KlEstimator = Field(
        default="k3_ratio", description="estimator of that divergence: in the loss, or in the reward (k1_reward)"
    )
    kl_k: int = Field(
        default=128,
        ge=1,
        description="tokens that kl_estimator top_k sums over; all of a vocabulary: the full KL",
    )
    entropy: float = Field(default=0.0, description="coefficient of an entropy bonus")
    shaping: ShapingSettings | None = Field(
        default=None, description="add something to rewards for the length of an answer; docs/methods/shaping.md"
    )
    drop_zero_variance: bool = Field(default=False, description="leave out groups whose rewards are all equal")
    mask_truncated: bool = Field(default=False, description="leave out samples that were cut off by max_tokens")

    @model_validator(mode="after")
    def _used(self) -> GrpoOptions:
        if self.kl == 0 and self._changed("kl_estimator"):
            raise ValueError("kl_estimator is unused while kl is 0: set kl or remove it")
        if self._changed("kl_k") and self.kl_estimator != "top_k":
            raise ValueError(f"kl_k: unused with kl_estimator {self.kl_estimator}; it is for top_k")
        if self.kl_estimator == "top_k" and self.centering is not None and self.centering.k != self.kl_k:
            raise ValueError("kl_k: centering looks at the same tokens; set kl_k to centering.k")
        if reason := REFUSED_KL.get(self.kl_estimator):
            raise ValueError(f"kl_estimator: {self.kl_estimator}: {reason}")
        if self.advantage != "group":
            for key in ("centre", "scale"):
                if self._changed(key):
                    raise ValueError(f"{key}: unused with advantage {self.advantage}; it is for advantage: group")
        if self._changed("decay") and self.baseline != "moving_average":
            raise ValueError("decay: unused; it is for centre: moving_average")
        if self.advantage == "multi_reward" and (self.shaping or (self.kl and self.kl_estimator == "k1_reward")):
            raise ValueError(
                "advantage: multi_reward weighs the rewards' own components, and would pass over shaping and a KL in "
                "the reward: take another advantage, or kl_estimator: k2"
            )
        if (self.advantage == "max_at_k") != (self.k is not None):
            raise ValueError("k belongs to advantage: max_at_k; set both or neither")
        if self.centering is not None and (self.surrogate != "reinforce" or self.old != "sampler"):
            raise ValueError(
                "centering: it weighs tokens by itself, straight to the policy that sampled; set surrogate: reinforce "
                "and old: sampler"
            )
        if self.centering is not None and (self.covariance is not None or self.entropy_share < 1):
            raise ValueError(
                "centering: a choice among tokens would bring the drift back; remove covariance and entropy_share"
            )
        if self.correction is not None and self.old == "sampler":
            raise ValueError(
                "correction: with old: sampler the ratio is to the policy that sampled already, and would count it "
                "twice; set old: learner, or remove correction"
            )
        if self.constant is not None and self.reduction != "constant":
            raise ValueError("constant belongs to reduction: constant; set that too, or remove it")
        return self

    @property
    def baseline(self) -> Centre | None:
        """What a reward is compared with; None where the advantage has no such thing."""
        return self.centre if self.advantage == "group" else ESTIMATORS.get(self.advantage, (None, None))[0]

    @property
    def alone(self) -> bool:
        """Whether one sample of a prompt is enough."""
        return self.advantage == "reinforce_pp" or self.baseline in ("greedy", "moving_average")
