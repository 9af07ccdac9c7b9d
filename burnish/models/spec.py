"""What a recipe says about a model: where it is, how it computes, which adapter trains. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

DtypeName = Literal["auto", "float32", "bfloat16", "float64"]
"""Names of the compute types; "auto" is a quick measurement on the machine at hand."""


HeadPath = Literal["auto", "chunked", "fused"]
"""How log-probabilities are taken from hidden states: by torch's fused operation, by our own chunks, or whichever is
right."""


class LoraSpec(BaseModel):
    """A low-rank adapter (LoRA, Hu et al. 2021, arXiv 2106.09685). Adapter weights are float32; the base is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rank: int = Field(default=16, ge=1, description="rank r of the update B A")
    alpha: float = Field(
        default=32.0, gt=0, description="the update is scaled by alpha / rank, or alpha / sqrt(rank) with rslora"
    )
    dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="dropout on the adapter's input; refused above 0, since promise E1 would not hold",
    )
    targets: Literal["all-linear"] | list[str] = Field(
        default="all-linear",
        description='"all-linear": every linear layer but the vocabulary head; or name endings such as "q_proj"',
    )
    rslora: bool = Field(
        default=False, description="scale by alpha / sqrt(rank) (Kalajdzievski 2023, arXiv 2312.03732)"
    )
    path: str | None = Field(
        default=None,
        description="continue from an adapter that peft saved here; the fields above are then read from it",
    )

    @model_validator(mode="after")
    def _targets_named(self) -> LoraSpec:
        if isinstance(self.targets, list) and not self.targets:
            raise ValueError('targets is an empty list: name modules such as "q_proj", or write "all-linear"')
        if self.path is not None:
            # compared with the defaults, since a resolved recipe sets every key
            fields = type(self).model_fields
            shadowed = sorted(name for name in fields if name != "path" and getattr(self, name) != fields[name].default)
            if shadowed:
                raise ValueError(
                    f"{', '.join(shadowed)}: read from the saved adapter at {self.path!r}; remove from the recipe"
                )
        return self


class ModelSpec(BaseModel):
    """One model of a run: the policy, a reference, a judge.

    Remote code is never run: a model whose architecture transformers does not ship is refused.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(
        min_length=1,
        description="a folder, a .gguf file, wheel:NAME (a model in a Python wheel), nursery:NAME, or a hub id",
    )
    dtype: DtypeName = Field(
        default="auto", description="compute type; auto takes bfloat16 where it is measurably faster"
    )
    device: str = Field(default="auto", description="auto (a GPU when there is one), cpu, cuda or cuda:N")
    template: str = Field(
        default="auto",
        description="auto (the tokenizer's own), plain (no markup), or the path of a Jinja chat template",
    )
    adapter: LoraSpec | None = Field(default=None, description="train a low-rank adapter; absent: train all weights")
