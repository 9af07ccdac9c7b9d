"""Annotators as data: pure functions of groups that write signals. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

AdvantageEstimator = Literal["mean", "grpo", "rloo", "batch_std", "reinforce_pp_baseline", "maxrl", "opo", "pass_at_k"]
"""Group advantages of rewards R_1..R_G of one prompt.

* `mean`: R - mean (Dr. GRPO's numerator).
* `grpo`: (R - mean) / (std + 1e-6), std with G - 1 in the denominator.
* `rloo`: R_i - mean of the others = G / (G - 1) (R_i - mean).
* `batch_std`: (R - mean) / std over the whole batch's rewards (ScaleRL).
* `reinforce_pp_baseline`: R - mean, then whitened over the whole batch.
* `maxrl`: (R - mean) / mean, 0 where the mean is not positive.
* `opo`: R - sum(T R) / sum(T), the length-weighted optimal baseline.
* `pass_at_k`: only the best sample, best - second best.
"""


class AnnotatorSpec(BaseModel):
    """What every annotator has."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupAdvantageSpec(AnnotatorSpec):
    """Advantages from the rewards of a group, on every token the learner sampled."""

    kind: Literal["group_advantage"] = "group_advantage"
    estimator: AdvantageEstimator = "mean"
    learner: str = "policy"
    stream: str = "advantage"
    drop_zero_variance: bool = Field(
        default=False, description="Leave groups whose rewards are all equal out of the loss and its denominators"
    )
    least_present: float = Field(
        default=0.5, ge=0, le=1, description="Leave groups out of which less than this share of members has a reward"
    )


class DemonstrationWeightSpec(AnnotatorSpec):
    """Cross-entropy weight 1 on demonstration tokens, stop tokens included."""

    kind: Literal["demonstration_weight"] = "demonstration_weight"
    stream: str = "ce_weight"


class ScoreSpec(AnnotatorSpec):
    """Log-probabilities of the sampled tokens under a model: a frozen reference, or the learner before its update."""

    kind: Literal["score"] = "score"
    model: str = "reference"
    signal: str = "reference_logprob"


class MaskTruncatedSpec(AnnotatorSpec):
    """Take samples that were cut off by the token limit out of losses and statistics (DAPO's overlong filtering)."""

    kind: Literal["mask_truncated"] = "mask_truncated"
