"""Sources of groups as data. No torch here."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class SourceSpec(BaseModel):
    """What every source has: how many prompts a step takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompts_per_step: int


class DemonstrationsSpec(SourceSpec):
    """Groups of one demonstration each, in a seeded order, epoch after epoch."""


class RolloutsSpec(SourceSpec):
    """Groups of samples of the policy, one group a prompt."""

    samples_per_prompt: int
