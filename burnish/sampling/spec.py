"""What a recipe says about sampling. No torch here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.sampling.protocol import SamplingParams

COLDEST = 1e-6
"""Lowest temperature above 0: a logit of some thousands divided by it is still far from the limit of float32."""


class MismatchSpec(BaseModel):
    """A sampler that is on purpose not the learner, to study what corrects for that.

    It has weights of its own. Log-probabilities are true: those of the distribution that it drew from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounded: Literal["none", "bfloat16", "int8"] = Field(
        default="none", description="what its weights are rounded to; int8: each row of a matrix to 255 steps"
    )
    stale: int = Field(default=0, ge=0, le=1000, description="how many published versions its weights lag behind")
    temperature: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="what it multiplies the temperature with, untold"
    )

    @model_validator(mode="after")
    def _some(self) -> MismatchSpec:
        if self.rounded == "none" and not self.stale and self.temperature == 1.0:
            raise ValueError("rounded, stale or temperature must differ from the learner's; or remove mismatch")
        return self


class SamplingSpec(BaseModel):
    """How completions are drawn; the order of the cuts is that of `SamplingParams`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_tokens: int = Field(default=256, ge=1, description="most tokens of a completion, the stop token included")
    temperature: float = Field(default=1.0, ge=0, allow_inf_nan=False, description="divides the logits; 0 is greedy")
    top_k: int = Field(default=0, ge=0, description="keep the k most probable tokens; 0: no limit")
    top_p: float = Field(default=1.0, gt=0, le=1, description="keep the smallest set with this much mass; 1: no limit")
    min_p: float = Field(
        default=0.0, ge=0, le=1, description="drop tokens below this share of the best one; 0: no limit"
    )

    @model_validator(mode="after")
    def _temperature_in_reach(self) -> SamplingSpec:
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature: below {COLDEST:g} the logits overflow; 0 takes the most probable token")
        return self

    @model_validator(mode="after")
    def _cuts_are_used(self) -> SamplingSpec:
        cuts = [k for k, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0)) if getattr(self, k) != off]
        if self.temperature == 0 and cuts:
            raise ValueError(f"{', '.join(cuts)} does nothing at temperature 0 (greedy): remove it or set temperature")
        return self

    def params(self, stop_ids: Iterable[int] = ()) -> SamplingParams:
        """The parameters of a call to a sampler, with the stop tokens of the chat template at hand."""
        return SamplingParams(**self.model_dump(), stop_ids=frozenset(stop_ids))
