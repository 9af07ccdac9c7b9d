"""GRPO and its near relatives: an advantage of a group, a ratio, a surrogate, optionally a KL to a reference."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from burnish.control.spec import FixedControllerSpec, PhaseSpec
from burnish.losses.spec import (
    CenteringSettings,
    CovariancePenaltySpec,
    DriftSpec,
    EntropySpec,
    PolicyGradientSpec,
    ReferenceKlSpec,
    ScoreCenteringSpec,
    TermSpec,
)
from burnish.methods.grpo_options import GrpoOptions
from burnish.methods.method import Declaration, Method
from burnish.methods.recipe import RolloutRecipe
from burnish.signals.spec import (
    AnnotatorSpec,
    CorrectionSpec,
    GroupAdvantageSpec,
    MaskTruncatedSpec,
    ScoreSpec,
    SegmentSpec,
    ShapingSpec,
    TopSpec,
)
from burnish.sources.spec import RolloutsSpec
from burnish.traces.signal_names import CORRECTION, reference_top_signal

__all__ = ["GRPO", "GrpoOptions", "GrpoRecipe", "declare"]


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
    """One phase: log-probabilities where asked for and advantages, then passes of the policy gradient."""
    o, longest = recipe.options, recipe.sampling.max_tokens
    annotators, terms = _annotators(o, longest), _terms(o, longest)
    phase = PhaseSpec(annotators=tuple(annotators), terms=tuple(terms), passes=o.passes)
    return Declaration(
        source=RolloutsSpec(
            prompts_per_step=recipe.prompts_per_step,
            samples_per_prompt=recipe.samples_per_prompt,
            greedy=o.baseline == "greedy",
        ),
        controller=FixedControllerSpec(phases=(phase,)),
        references=("reference",) if o.kl else (),
    )


def _annotators(o: GrpoOptions, longest: int) -> list[AnnotatorSpec]:
    found: list[AnnotatorSpec] = [MaskTruncatedSpec()] if o.mask_truncated else []
    if o.kl and o.kl_estimator != "top_k":
        found.append(ScoreSpec(model="reference", signal="reference_logprob"))
    if o.shaping is not None:
        found.append(ShapingSpec(settings=o.shaping, longest=longest))
    found.append(
        GroupAdvantageSpec(
            estimator=o.advantage, centre=o.centre, scale=o.scale, k=o.k, decay=o.decay, by=o.by,
            kl=o.kl if o.kl_estimator == "k1_reward" else 0.0, drop_zero_variance=o.drop_zero_variance,
        )
    )  # fmt: skip
    if o.old == "learner":
        found.append(ScoreSpec(model="policy", signal="old_logprob"))
    if o.correction is not None:
        found.append(CorrectionSpec(settings=o.correction))
    if (c := o.centering) is not None:
        found.append(TopSpec(k=c.k, least_mass=c.least_mass))
    elif o.kl and o.kl_estimator == "top_k":
        found.append(TopSpec(k=o.kl_k, least_mass=1e-6))
    if o.kl and o.kl_estimator == "top_k":
        found.append(ScoreSpec(model="reference", signal=reference_top_signal("reference"), top=True))
    if o.ratio == "segment":
        found.append(SegmentSpec(tokens=o.segment_tokens))
    return found


def _centred(settings: CenteringSettings, shape: dict[str, Any]) -> TermSpec:
    low, high = settings.band
    return ScoreCenteringSpec(weight=settings.weight, low=low, high=high, **shape)


def _terms(o: GrpoOptions, longest: int) -> list[TermSpec]:
    constant = (o.constant or float(longest)) if o.reduction == "constant" else None
    shape: dict[str, Any] = {"reduction": o.reduction, "constant": constant}
    choice = o.covariance
    weighed = CORRECTION if o.correction is not None and not o.correction.rejects else None
    found: list[TermSpec] = [
        _centred(o.centering, shape)
        if o.centering is not None
        else PolicyGradientSpec(
            surrogate=o.surrogate, ratio=o.ratio, clip_low=o.clip_low, clip_high=o.clip_high, dual_clip=o.dual_clip,
            soft_positive=o.soft_positive, soft_negative=o.soft_negative, tau=o.tau, divergence=o.divergence,
            threshold=o.threshold, old=o.old, correction=weighed, entropy_share=o.entropy_share,
            covariance=choice if choice is not None and choice.rule == "clip" else None, **shape,
        )
    ]  # fmt: skip
    if choice is not None and choice.rule == "kl":
        found.append(CovariancePenaltySpec(coefficient=choice.coefficient, share=choice.share, old=o.old, **shape))
    if o.drift:
        found.append(DriftSpec(coefficient=o.drift, old=o.old, **shape))
    if o.kl and o.kl_estimator != "k1_reward":
        found.append(ReferenceKlSpec(coefficient=o.kl, estimator=o.kl_estimator, **shape))
    if o.entropy:
        found.append(EntropySpec(coefficient=o.entropy, **shape))
    return found


GRPO = Method(
    name="grpo",
    summary="reinforce the samples of a prompt that did better than its other samples",
    status="found",
    needs=("verifier", "reward-function", "environment"),
    cost="samples_per_prompt samples of every prompt, one forward and backward pass; a reference forward with kl",
    citation="Shao et al. 2024, arXiv 2402.03300; clip-higher and token mean: Yu et al. 2025, arXiv 2503.14476",
    page="docs/methods/grpo.md",
    recipe=GrpoRecipe,
    declare=declare,
    rows=("grpo", "rlvr"),
    serves={
        "correct": "reinforces the samples that were right",
        "act": "reinforces the attempts that reached the goal",
        "keep-form": "reinforces the samples that keep the form",
        "cover": "with options.advantage: pass_at_k or max_at_k",
        "be-brief": "with options.shaping, by which the length of an answer enters its reward",
    },
    formula="""\
A_i  =  R_i - mean(R)            (options.advantage: mean, the default)
L    =  - sum over i, t of  w_it min( r_it A_i,  clip(r_it, 1 - clip_low, 1 + clip_high) A_i )
        + kl * KL""",
)
