"""A method: a declaration of source, terms and controller, with what a user must know to choose it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, SerializeAsAny

from burnish.control.spec import FixedControllerSpec
from burnish.methods.recipe import Recipe
from burnish.sources.spec import SourceSpec


class Declaration(BaseModel):
    """What runs: the source of groups, the phases with annotators and terms, the frozen models beside the policy."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: SerializeAsAny[SourceSpec]
    controller: FixedControllerSpec
    references: tuple[str, ...] = ()
    """Names of frozen copies of the starting policy; with an adapter, the policy with its adapter off."""


Need = Literal["demonstrations", "verifier", "reward-function", "preferences", "teacher-logprobs", "teacher-text"]


@dataclass(frozen=True)
class Method:
    """A method by name. `declare` turns a validated recipe of the class `recipe` into a declaration."""

    name: str
    summary: str
    status: Literal["found", "derived"]
    needs: tuple[Need, ...]
    """Any one of these kinds of feedback is enough."""
    cost: str
    citation: str
    page: str
    recipe: type[Recipe]
    declare: Callable[[Any], Declaration]
