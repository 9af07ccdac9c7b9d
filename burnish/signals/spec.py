"""Annotators as data: pure functions of groups that write signals. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Centre = Literal["mean", "leave_one_out", "length_weighted", "greedy", "moving_average"]
"""What a reward is compared with: the mean of its group, that of the others in it, the mean weighted with lengths,
the reward of a greedy sample of the prompt, or a moving average of the rewards of its domain."""

Scale = Literal["none", "std", "batch_std", "mean"]
"""What the difference is divided by: nothing, the group's standard deviation (G - 1 in the denominator), that of the
whole batch's rewards, or the group's mean."""

ESTIMATORS: dict[str, tuple[Centre, Scale]] = {
    "mean": ("mean", "none"),
    "grpo": ("mean", "std"),
    "rloo": ("leave_one_out", "none"),
    "batch_std": ("mean", "batch_std"),
    "reinforce_pp_baseline": ("mean", "none"),
    "maxrl": ("mean", "mean"),
    "opo": ("length_weighted", "none"),
    "remax": ("greedy", "none"),
}
"""The estimators with a name of their own, as centre and scale; `reinforce_pp_baseline` is whitened after that."""

AdvantageEstimator = Literal[
    "mean", "grpo", "rloo", "batch_std", "reinforce_pp_baseline", "maxrl", "opo", "pass_at_k", "remax", "reinforce_pp",
    "max_at_k", "multi_reward", "group",
]  # fmt: skip
"""Advantages of rewards R_1..R_G of one prompt.

* `mean`: R - mean (Dr. GRPO's numerator).
* `grpo`: (R - mean) / (std + 1e-6), std with G - 1 in the denominator.
* `rloo`: R_i - mean of the others = G / (G - 1) (R_i - mean).
* `batch_std`: (R - mean) / std over the whole batch's rewards (ScaleRL).
* `reinforce_pp_baseline`: R - mean, then whitened over the whole batch.
* `maxrl`: (R - mean) / mean, 0 where the mean is not positive.
* `opo`: R - sum(T R) / sum(T), the length-weighted optimal baseline.
* `remax`: R - the reward of a greedy sample.
* `pass_at_k`: only the best sample, best - second best.
* `max_at_k`: the unbiased gradient of the expected best of k samples, with what the best would be without this one
  as its baseline (leave-one-out minus one; Walder and Karkhanis 2025).
* `multi_reward`: each component of the reward normalised within the group, summed, whitened over the batch (GDPO).
* `reinforce_pp`: no group: R (less the KL to come, with a KL in the reward), whitened over the batch's tokens.
* `group`: what `centre` and `scale` say.
"""


class AnnotatorSpec(BaseModel):
    """What every annotator has."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class GroupAdvantageSpec(AnnotatorSpec):
    """Advantages from the rewards of a group, on every token the learner sampled."""

    kind: Literal["group_advantage"] = "group_advantage"
    estimator: AdvantageEstimator = "mean"
    centre: Centre = Field(default="mean", description="For estimator group: what a reward is compared with")
    scale: Scale = Field(default="none", description="For estimator group: what the difference is divided by")
    k: int | None = Field(default=None, ge=2, description="For estimator max_at_k: the best of how many samples")
    decay: float = Field(default=0.9, ge=0, lt=1, description="For centre moving_average: what is kept a step")
    by: Literal["member", "state"] = Field(
        default="member", description="Whether members are compared, or spans that began in the same state"
    )
    kl: float = Field(default=0.0, ge=0, description="Coefficient of a KL divergence taken from the reward")
    reference: str = Field(default="reference", description="Name of the model that KL is to")
    learner: str = "policy"
    stream: str = "advantage"
    drop_zero_variance: bool = Field(
        default=False, description="Leave groups whose rewards are all equal out of the loss and its denominators"
    )
    least_present: float = Field(
        default=0.5, ge=0, le=1, description="Leave groups out of which less than this share of members has a reward"
    )

    @property
    def baseline(self) -> Centre | None:
        """What a reward is compared with; None where an estimator has no such thing."""
        if self.estimator == "group":
            return self.centre
        return ESTIMATORS[self.estimator][0] if self.estimator in ESTIMATORS else None


class SegmentSpec(AnnotatorSpec):
    """Number the segments of a path: turns, or runs of so many sampled tokens."""

    kind: Literal["segment"] = "segment"
    tokens: int | None = Field(default=None, ge=1, description="Sampled tokens of a segment; absent: a turn is one")
    learner: str = "policy"
    signal: str = "segment"


ShapingRule = Literal["soft_overlong", "relative", "among_right", "toggle", "concave", "effort"]
"""How the length of an answer enters its reward: signals/shaping.py."""

SHAPING_KEYS: dict[str, frozenset[str]] = {
    "soft_overlong": frozenset({"longest", "buffer"}),
    "relative": frozenset({"right"}),
    "among_right": frozenset({"right"}),
    "toggle": frozenset({"right", "percentile", "every", "accuracy"}),
    "concave": frozenset({"rate", "power"}),
    "effort": frozenset({"right", "percentile", "first", "last", "steps"}),
}
"""The settings that each rule reads, besides `coefficient` and `after`."""


class ShapingSettings(BaseModel):
    """Something added to the actor's reward for the length of an answer, in sampled tokens."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: ShapingRule = Field(default="soft_overlong", description="docs/methods/shaping.md")
    coefficient: float = Field(default=1.0, gt=0, allow_inf_nan=False, description="factor of what is added")
    after: int = Field(default=0, ge=0, description="steps before it begins")
    right: float = Field(default=1.0, allow_inf_nan=False, description="reward from which an answer is right")
    longest: int | None = Field(
        default=None, ge=1, description="tokens from which the penalty is -1, for soft_overlong; absent: max_tokens"
    )
    buffer: int | None = Field(
        default=None, ge=1, description="tokens over which it falls, for soft_overlong; absent: a fifth of longest"
    )
    percentile: float = Field(
        default=50.0, ge=0, le=100, description="of the lengths of a prompt's first right answers: its budget"
    )
    every: int = Field(default=10, ge=1, description="steps of a phase, for toggle")
    accuracy: float = Field(default=0.8, gt=0, le=1, description="share of right answers from which a budget holds")
    rate: float = Field(default=0.01, gt=0, description="how soon the cost of a token falls, for concave")
    power: float = Field(default=0.5, gt=0, le=1, description="how far it falls, for concave; 1: a logarithm")
    first: float = Field(default=2.0, gt=0, description="budgets are multiplied by this at first, for effort")
    last: float = Field(default=1.0, gt=0, description="and by this in the end")
    steps: int = Field(default=100, ge=1, description="steps from the one to the other")

    @model_validator(mode="after")
    def _used(self) -> ShapingSettings:
        for key in sorted(frozenset().union(*SHAPING_KEYS.values()) - SHAPING_KEYS[self.rule]):
            if getattr(self, key) != type(self).model_fields[key].default:
                rules = [rule for rule, keys in SHAPING_KEYS.items() if key in keys]
                raise ValueError(f"{key}: unused with rule {self.rule}; it is for {' and '.join(rules)}")
        return self


class ShapingSpec(AnnotatorSpec):
    """Write what `settings` say beside each verdict, for the actor."""

    kind: Literal["shaping"] = "shaping"
    settings: ShapingSettings = ShapingSettings()
    longest: int = Field(default=256, ge=1, description="Most tokens of an answer")
    learner: str = "policy"


class GaeSpec(AnnotatorSpec):
    """Advantages by a critic's values, and the targets it learns.

    The advantage is of the actor's rewards, with `lam` or, where `reach` is given, the length-adaptive reach^(1 / L).
    The target is of the rewards that were earned, with `critic_lam`: 1 is the plain sum of what was still to come.
    """

    kind: Literal["gae"] = "gae"
    gamma: float = Field(default=1.0, gt=0, le=1)
    lam: float = Field(default=0.95, ge=0, le=1, description="Lambda of the advantage")
    reach: float | None = Field(
        default=None, gt=0, le=1, description="Share of the last reward that reaches the first token, at any length"
    )
    critic_lam: float = Field(default=1.0, ge=0, le=1, description="Lambda of the critic's target")
    kl: float = Field(default=0.0, ge=0, description="Coefficient of a KL divergence taken from each token's reward")
    reference: str = "reference"
    whiten: bool = Field(default=True, description="Over the batch's tokens")
    value: str = Field(default="value", description="Signal with the critic's values")
    stream: str = "advantage"
    target: str = "value_target"
    learner: str = "policy"


class CombineSpec(AnnotatorSpec):
    """A weighted sum of advantages, such as of attempts and of states; a token that lacks one goes without it."""

    kind: Literal["combine"] = "combine"
    streams: tuple[str, ...]
    weights: tuple[float, ...]
    stream: str = "advantage"
    learner: str = "policy"

    @model_validator(mode="after")
    def _paired(self) -> CombineSpec:
        if len(self.streams) != len(self.weights):
            raise ValueError(f"weights: {len(self.weights)} for {len(self.streams)} streams; give one for each")
        return self


CORRECTION_BANDS: dict[str, tuple[float, float]] = {
    "tis": (0.0, 2.0),
    "mis": (0.5, 5.0),
    "coin_kl": (0.0, 0.05),
    "geometric": (0.99, 1.01),
    "k3": (0.0, 0.01),
}
"""The default lower and upper limits of each rule."""


class CorrectionSettings(BaseModel):
    """What is done where the sampler's probabilities are not the learner's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Literal["tis", "mis", "coin_kl", "geometric", "k3"] = Field(
        default="tis",
        description="tis: weigh with min(rho, high); mis: with rho where low <= rho <= high, else 0; coin_kl: leave "
        "tokens out; geometric, k3: leave samples out; docs/methods/mismatch.md",
    )
    level: Literal["token", "sequence"] = Field(
        default="token", description="rho of a token, or the product over its sample, for tis and mis"
    )
    low: float | None = Field(default=None, ge=0, description="lower limit, for mis and geometric; absent: the rule's")
    high: float | None = Field(default=None, gt=0, description="upper limit; absent: the rule's")
    normalise: bool = Field(default=False, description="divide weights by their mean over the batch's tokens")

    @property
    def lower(self) -> float:
        """The lower limit."""
        return CORRECTION_BANDS[self.rule][0] if self.low is None else self.low

    @property
    def upper(self) -> float:
        """The upper limit."""
        return CORRECTION_BANDS[self.rule][1] if self.high is None else self.high

    @property
    def rejects(self) -> bool:
        """Whether it leaves whole samples out, and weighs nothing."""
        return self.rule in ("geometric", "k3")

    @model_validator(mode="after")
    def _used(self) -> CorrectionSettings:
        if self.level == "sequence" and self.rule not in ("tis", "mis"):
            raise ValueError(f"level: unused with rule {self.rule}; it is for tis and mis")
        if self.low is not None and self.rule not in ("mis", "geometric"):
            raise ValueError(f"low: unused with rule {self.rule}; it is for mis and geometric")
        if self.normalise and self.rejects:
            raise ValueError(f"normalise: unused with rule {self.rule}, which weighs nothing; remove it")
        if self.lower >= self.upper:
            raise ValueError(f"low: the band from {self.lower:g} to {self.upper:g} is empty; lower it")
        return self


class CorrectionSpec(AnnotatorSpec):
    """Weights for the proximal over the behaviour policy, or rejection of samples; needs `old_logprob`."""

    kind: Literal["correction"] = "correction"
    settings: CorrectionSettings = CorrectionSettings()
    learner: str = "policy"
    signal: str = "correction"


class TopSpec(AnnotatorSpec):
    """The k most probable tokens of the sampler at each sampled token, with their log-probabilities there.

    They are those of the distribution that was really drawn from: temperature and kept support included.
    """

    kind: Literal["top"] = "top"
    model: str = "sampler"
    k: int = Field(default=128, ge=1)
    least_mass: float = Field(default=0.9, gt=0, le=1, description="Mass that they must cover on average")


class DemonstrationWeightSpec(AnnotatorSpec):
    """Cross-entropy weight 1 on demonstration tokens, stop tokens included."""

    kind: Literal["demonstration_weight"] = "demonstration_weight"
    stream: str = "ce_weight"


class ScoreSpec(AnnotatorSpec):
    """Log-probabilities of the sampled tokens under a model: a frozen reference, or the learner before its update."""

    kind: Literal["score"] = "score"
    model: str = "reference"
    signal: str = "reference_logprob"
    top: bool = Field(default=False, description="Of the k tokens that `top_ids` names, in place of the sampled one")


class MaskTruncatedSpec(AnnotatorSpec):
    """Take samples that were cut off by the token limit out of losses and statistics (DAPO's overlong filtering)."""

    kind: Literal["mask_truncated"] = "mask_truncated"
