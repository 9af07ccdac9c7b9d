"""Supervised fine-tuning: cross-entropy on demonstrations."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from burnish.control.spec import FixedControllerSpec, PhaseSpec
from burnish.losses.spec import CrossEntropySpec
from burnish.methods.method import Declaration, Method
from burnish.methods.recipe import Recipe
from burnish.signals.spec import DemonstrationWeightSpec
from burnish.sources.spec import DemonstrationsSpec


class SftOptions(BaseModel):
    """Settings of the loss."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reduction: Literal["weight_mean", "sequence_mean", "sequence_sum"] = Field(
        default="weight_mean",
        description="weight_mean: every token counts alike; sequence_mean: every demonstration does",
    )


class SftRecipe(Recipe):
    """A recipe of method sft."""

    method: Literal["sft"] = "sft"
    options: SftOptions = SftOptions()


def declare(recipe: SftRecipe) -> Declaration:
    """One phase: weight the demonstrations' tokens, take a cross-entropy step."""
    phase = PhaseSpec(
        annotators=(DemonstrationWeightSpec(),),
        terms=(CrossEntropySpec(reduction=recipe.options.reduction),),
    )
    return Declaration(
        source=DemonstrationsSpec(prompts_per_step=recipe.prompts_per_step),
        controller=FixedControllerSpec(phases=(phase,)),
    )


SFT = Method(
    name="sft",
    summary="imitate demonstrations, token by token",
    status="found",
    needs=("demonstrations",),
    cost="one forward and backward pass over the demonstrations",
    citation="Ouyang et al. 2022, arXiv 2203.02155, section 3.5",
    page="docs/methods/sft.md",
    recipe=SftRecipe,
    declare=declare,
    rows=("sft",),
    serves={
        "imitate": "raises the probability of each demonstrated token",
        "correct": "with demonstrations of right answers",
        "act": "with demonstrated conversations, the tools' results among them; a generated world's oracle gives some",
        "keep-form": "with demonstrations that keep the form",
        "know": "with demonstrations that state the facts",
    },
    formula="L = - sum_t w_t log pi(y_t | x, y_<t) / sum_t w_t",
)
