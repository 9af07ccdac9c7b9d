"""GRPO and its near relatives: group advantages, a clipped ratio, optionally a KL term to a reference."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.control.spec import FixedControllerSpec, PhaseSpec
from burnish.losses.spec import EntropySpec, KlEstimator, PolicyGradientSpec, PolicyReduction, ReferenceKlSpec, TermSpec
from burnish.methods.method import Declaration, Method
from burnish.methods.recipe import RolloutRecipe
from burnish.signals.spec import (
    AdvantageEstimator,
    AnnotatorSpec,
    GroupAdvantageSpec,
    MaskTruncatedSpec,
    ScoreSpec,
)
from burnish.sources.spec import RolloutsSpec


class GrpoOptions(BaseModel):
    """Settings of the objective. The defaults follow Dr. GRPO's advantage and DAPO's token mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    advantage: AdvantageEstimator = Field(default="mean", description="how rewards of a group become advantages")
    reduction: PolicyReduction = Field(default="token_mean", description="how token values become one number")
    constant: float | None = Field(default=None, gt=0, description="tokens per sequence, for reduction constant")
    clip_low: float = Field(default=0.2, ge=0, lt=1, description="the ratio is clipped below at 1 - clip_low")
    clip_high: float = Field(default=0.28, ge=0, description="the ratio is clipped above at 1 + clip_high")
    old: Literal["sampler", "learner"] = Field(
        default="sampler",
        description="log-probabilities in the ratio: those of the sampler, or the learner's own re-score",
    )
    passes: int = Field(default=1, ge=1, description="passes over each batch of samples")
    kl: float = Field(
        default=0.0, ge=0, description="coefficient of the KL divergence from the starting policy; 0: no reference"
    )
    kl_estimator: KlEstimator = Field(default="k3_ratio", description="estimator of that divergence, used as a loss")
    entropy: float = Field(default=0.0, description="coefficient of an entropy bonus")
    drop_zero_variance: bool = Field(default=False, description="leave out groups whose rewards are all equal")
    mask_truncated: bool = Field(default=False, description="leave out samples that were cut off by max_tokens")

    @model_validator(mode="after")
    def _used(self) -> GrpoOptions:
        if self.kl == 0 and self.kl_estimator != type(self).model_fields["kl_estimator"].default:
            raise ValueError("kl_estimator is unused while kl is 0: set kl or remove it")
        if (self.reduction == "constant") != (self.constant is not None):
            raise ValueError("constant belongs to reduction: constant; set both or neither")
        return self


class GrpoRecipe(RolloutRecipe):
    """A recipe of method grpo."""

    method: Literal["grpo"] = "grpo"
    options: GrpoOptions = GrpoOptions()

    @model_validator(mode="after")
    def _sampled(self) -> GrpoRecipe:
        if self.sampling.temperature == 0:
            raise ValueError("sampling.temperature is 0: greedy samples of a prompt are all alike; set it above 0")
        return self


def declare(recipe: GrpoRecipe) -> Declaration:
    """One phase: advantages (and log-probabilities where asked for), then clipped policy-gradient passes."""
    o = recipe.options
    annotators: list[AnnotatorSpec] = [MaskTruncatedSpec()] if o.mask_truncated else []
    annotators.append(GroupAdvantageSpec(estimator=o.advantage, drop_zero_variance=o.drop_zero_variance))
    shape = {"reduction": o.reduction, "constant": o.constant}
    terms: list[TermSpec] = [PolicyGradientSpec(clip_low=o.clip_low, clip_high=o.clip_high, old=o.old, **shape)]
    if o.old == "learner":
        annotators.append(ScoreSpec(model="policy", signal="old_logprob"))
    if o.kl:
        annotators.append(ScoreSpec(model="reference", signal="reference_logprob"))
        terms.append(ReferenceKlSpec(coefficient=o.kl, estimator=o.kl_estimator, **shape))
    if o.entropy:
        terms.append(EntropySpec(coefficient=o.entropy, **shape))
    phase = PhaseSpec(annotators=tuple(annotators), terms=tuple(terms), passes=o.passes)
    return Declaration(
        source=RolloutsSpec(prompts_per_step=recipe.prompts_per_step, samples_per_prompt=recipe.samples_per_prompt),
        controller=FixedControllerSpec(phases=(phase,)),
        references=("reference",) if o.kl else (),
    )


GRPO = Method(
    name="grpo",
    summary="reinforce the samples of a prompt that did better than its other samples",
    status="found",
    needs=("verifier", "reward-function"),
    cost="samples_per_prompt samples of every prompt, one forward and backward pass; a reference forward with kl",
    citation="Shao et al. 2024, arXiv 2402.03300; clip-higher and token mean: Yu et al. 2025, arXiv 2503.14476",
    page="docs/methods/grpo.md",
    recipe=GrpoRecipe,
    declare=declare,
)
