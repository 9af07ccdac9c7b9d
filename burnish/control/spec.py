"""Phases of a step as data. No torch here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny

from burnish.losses.spec import TermSpec
from burnish.signals.spec import AnnotatorSpec


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
