"""Phases of a step as data. No torch here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from burnish.losses.spec import TermSpec
from burnish.signals.spec import AnnotatorSpec

ZERO_VARIANCE_STEPS = 20
"""Steps in a row without spread that end a run by default, if they also hold `ZERO_VARIANCE_SAMPLES` samples."""

ZERO_VARIANCE_SAMPLES = 1280
"""That many equal rewards: were one in 400 samples better, so long a row would come once in 25 times (0.9975^1280)."""


class PhaseSpec(BaseModel):
    """One phase of a step: signals are written, then one learner takes `passes` passes over the groups."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    learner: str = "policy"
    annotators: tuple[SerializeAsAny[AnnotatorSpec], ...] = ()
    terms: tuple[SerializeAsAny[TermSpec], ...]
    passes: int = Field(default=1, ge=1, description="passes over the same groups")


class FixedControllerSpec(BaseModel):
    """The same phases in every step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    phases: tuple[PhaseSpec, ...] = Field(min_length=1)


class WatchSpec(BaseModel):
    """What is watched in every run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    stall_seconds: float = Field(
        default=600.0, ge=0, allow_inf_nan=False,
        description="after so many seconds without progress the stacks of all threads are written down; 0: never",
    )  # fmt: skip


class GuardsSpec(WatchSpec):
    """When a run that cannot learn stops. With 0 steps a guard only tells, and never stops the run."""

    silent_steps: int = Field(
        default=5, ge=0, description="stop after so many steps in a row without any reward; 0: only tell"
    )
    truncated_share: float = Field(
        default=0.98, gt=0, le=1, description="share of samples cut off from which a step counts as truncated"
    )
    truncated_steps: int = Field(
        default=20, ge=0, description="stop after so many truncated steps in a row; 0: only tell"
    )
    discarded_share: float = Field(
        default=0.6, gt=0, le=1,
        description="share of samples without a reward or masked from which a step counts as discarded",
    )  # fmt: skip
    discarded_steps: int = Field(
        default=20, ge=0, description="stop after so many discarded steps in a row; 0: only tell"
    )
    entropy_floor: float = Field(
        default=0.02, ge=0, allow_inf_nan=False,
        description="nats of entropy of a whole sample under which a step counts as collapsed; "
        "at 0.02 about three samples in a thousand differ from the others",
    )  # fmt: skip
    entropy_steps: int = Field(
        default=20, ge=0, description="stop after so many collapsed steps in a row; 0: only tell"
    )
    zero_variance_steps: int | None = Field(
        default=None, ge=0,
        description="stop after so many steps in a row in which no group had two different rewards; 0: only tell; "
        f"absent: after {ZERO_VARIANCE_STEPS} that hold at least {ZERO_VARIANCE_SAMPLES:,} samples",
    )  # fmt: skip
