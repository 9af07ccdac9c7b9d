"""Sources of groups as data. No torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SourceSpec(BaseModel):
    """What every source has: how many prompts a step takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompts_per_step: int


class DemonstrationsSpec(SourceSpec):
    """Groups of one demonstration each, in a seeded order, epoch after epoch."""


class RolloutsSpec(SourceSpec):
    """Groups of samples of the policy, one group a prompt: one turn each, or an attempt in an environment."""

    samples_per_prompt: int
    greedy: bool = False
    """Whether each group also holds one greedy answer: something to compare with, masked, and never trained."""


class RefillSpec(BaseModel):
    """Dynamic sampling: a prompt whose samples are all worth the same is replaced by a further one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["refill"] = "refill"
    rounds: int = Field(
        default=3, ge=0, le=1000,
        description="most rounds of further prompts a step; 0: such groups are left out and not replaced",
    )  # fmt: skip


class OversampleSpec(BaseModel):
    """More prompts are sampled than a step trains on, and the best of their groups are taken."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["oversample"] = "oversample"
    factor: float = Field(
        default=2.0, gt=1, le=1000, description="prompts that are sampled for each that is trained on; rounded up"
    )
    by: Literal["spread", "hard", "random"] = Field(
        default="spread",
        description="which are taken: those whose rewards differ most (spread), those with the lowest rewards that "
        "differ at all (hard), any (random: a control)",
    )


AnySelection = Annotated[RefillSpec | OversampleSpec, Field(discriminator="kind")]
"""Which of the groups that are sampled a step trains on."""


class BranchSpec(BaseModel):
    """Attempts go on in several ways from one turn; each way is a sample of its own that shares what came before."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turn: int = Field(ge=1, description="the turn after which they part")
    ways: int = Field(default=2, ge=2, le=1024, description="in how many ways each goes on")


class EpisodesSpec(BaseModel):
    """How attempts in an environment are run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: int | None = Field(default=None, ge=1, description="most turns of an attempt; absent: what its world needs")
    tokens: int | None = Field(
        default=None, ge=1, description="most sampled tokens of an attempt, all turns together; absent: no such limit"
    )
    seconds: float | None = Field(
        default=None, gt=0, allow_inf_nan=False,
        description="seconds that the environment may work for an attempt, its budget of time; absent: no limit",
    )  # fmt: skip
    call_seconds: float = Field(
        default=60.0, gt=0, allow_inf_nan=False,
        description="seconds that one call of the environment may take; longer is a fault of the machinery",
    )  # fmt: skip
    live: int = Field(default=1024, ge=1, le=100_000, description="environments that are there at a time")
    branch: BranchSpec | None = Field(default=None, description="go on in several ways from one turn")

    @model_validator(mode="after")
    def _reached(self) -> EpisodesSpec:
        if self.branch is not None and self.turns is not None and self.branch.turn >= self.turns:
            raise ValueError(
                f"branch.turn: attempts end after {self.turns} turns, so none parts after turn {self.branch.turn}; "
                "lower it, or raise turns"
            )
        return self
