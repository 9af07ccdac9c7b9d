"""The learner's settings as data. No torch here."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.models.spec import HeadPath

OptimizerName = Literal[
    "adamw", "adam", "sgd", "rmsprop", "adafactor", "nadam", "radam", "adagrad", "adamax", "adadelta", "muon"
]


class MuonSpec(BaseModel):
    """Muon's own settings. It has the matrices of linear maps; embeddings, head, routers, norms, biases are AdamW's."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    momentum: float = Field(default=0.95, ge=0, lt=1, description="Share of the momentum that a step keeps")
    nesterov: bool = Field(default=True, description="Look one step ahead along the momentum")
    iterations: int = Field(default=5, ge=1, le=50, description="Newton-Schulz iterations")
    coefficients: Literal["jordan", "polar"] = Field(
        default="jordan", description="Of the iterations: Jordan's, the same in each, or those of Polar Express"
    )
    scale: Literal["match_rms", "original", "spectral"] = Field(
        default="match_rms",
        description="What a matrix's step is multiplied by: 0.2 sqrt(the longer side), so that AdamW's learning rate "
        "and decay carry over; sqrt(outputs / inputs), at least 1; or that without the floor",
    )
    normalise: bool = Field(default=False, description="Even out the rows by their running size (NorMuon)")
    split: bool = Field(default=True, description="Treat maps that are fused in one matrix each by itself")
    rest_lr: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="AdamW's learning rate over that of the matrices"
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32", description="Of the iterations; bfloat16 is faster where the machine has it"
    )


class OptimizerSpec(BaseModel):
    """A torch optimizer, its schedule and its clipping."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: OptimizerName = Field(default="adamw", description="Optimizer class of torch.optim, in lower case")
    lr: float | None = Field(
        allow_inf_nan=False,
        default=None,
        gt=0,
        description="Peak learning rate; by default 2e-5 for full training and 2e-4 for adapters",
    )
    betas: tuple[float, float] = Field(
        default=(0.9, 0.999), description="Moment decay rates, where the optimizer has them"
    )
    eps: float = Field(default=1e-8, gt=0, description="Added to the denominator, where the optimizer has it")
    weight_decay: float = Field(default=0.0, ge=0, description="Decoupled where the optimizer decouples it")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="For sgd and rmsprop")
    clip_norm: float | None = Field(default=1.0, gt=0, description="Largest global gradient norm; null: no clipping")
    schedule: Literal["constant", "linear", "cosine"] = Field(default="constant", description="Decay after the warm-up")
    warmup_steps: int = Field(default=0, ge=0, description="Optimizer steps of linear warm-up")
    decay_steps: int | None = Field(
        default=None, gt=0, description="Optimizer steps until the end of the decay; by default those of the whole run"
    )
    final_ratio: float = Field(
        default=0.0, ge=0, le=1, description="Learning rate at the end of the decay, over its peak"
    )

    muon: MuonSpec = Field(default=MuonSpec(), description="For name muon")

    @model_validator(mode="after")
    def _muons_keys_used(self) -> OptimizerSpec:
        fields = MuonSpec.model_fields
        unused = [key for key in fields if getattr(self.muon, key) != fields[key].default]
        if self.name != "muon" and unused:
            raise ValueError(f"muon.{', muon.'.join(unused)}: unused by optimizer {self.name}; set name to muon")
        return self

    @model_validator(mode="after")
    def _schedule_keys_used(self) -> OptimizerSpec:
        unused = [key for key, off in (("decay_steps", None), ("final_ratio", 0.0)) if getattr(self, key) != off]
        if self.schedule == "constant" and unused:
            raise ValueError(f"{', '.join(unused)}: unused with schedule constant; set schedule to linear or cosine")
        if self.schedule != "constant" and self.final_ratio == 1:
            raise ValueError(f"final_ratio: 1 leaves nothing to decay with schedule {self.schedule}; lower it")
        if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
            raise ValueError(
                f"decay_steps: the decay would end at optimizer step {self.decay_steps}, within the warm-up of "
                f"{self.warmup_steps}; raise decay_steps or lower warmup_steps"
            )
        return self

    def learning_rate(self, step: int, *, adapter: bool = False, total_steps: int | None = None) -> float:
        """The learning rate of optimizer step `step` (counted from 0)."""
        import math

        peak = self.lr if self.lr is not None else (2e-4 if adapter else 2e-5)
        if step < self.warmup_steps:
            return peak * (step + 1) / self.warmup_steps
        decay = self.decay_steps or total_steps
        if self.schedule == "constant" or not decay:
            return peak
        done = min(1.0, (step - self.warmup_steps) / max(1, decay - self.warmup_steps))
        shape = 1.0 - done if self.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
        return peak * (self.final_ratio + (1.0 - self.final_ratio) * shape)


class LearnerSpec(BaseModel):
    """How a learner lays out its work. None of these changes the gradient (promise E1)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    micro_batch_tokens: int = Field(default=4096, gt=0, description="Tokens of one forward and backward pass")
    share_prefixes: bool = Field(default=True, description="Compute a prefix shared by several samples once")
    packing: bool = Field(default=True, description="Several trees in one micro-batch")
    gradient_checkpointing: bool = Field(
        default=False, description="Recompute layers in the backward pass to save memory"
    )
    head: HeadPath = Field(
        default="auto",
        description="Log-probabilities by our own chunks of logits (chunked), by torch's fused linear cross-entropy "
        "(fused), or as fast as each loss allows: inside the head, fused where no digit is lost, chunked (auto)",
    )
    optimizer_steps: int = Field(
        default=1, gt=0, description="Optimizer steps a batch of groups is split into, per pass"
    )
