"""What a recipe says about where its tasks are attempted. No torch here."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from burnish.tasks.families.spec import Split

CallForm = Literal["auto", "hermes", "text"]
"""How a model writes tool calls (burnish/sources/calls.py)."""


class EnvironmentSpecBase(BaseModel):
    """What every environment has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    calls: CallForm = Field(
        default="auto",
        description="how tool calls are written: hermes (JSON in <tool_call>), text (name(arguments)); auto: hermes "
        "where the chat template writes it, text where the template has no tool calls",
    )


class WorldSpec(EnvironmentSpecBase):
    """What every generated world has. Train and held-out tasks share none, whatever their seeds and counts."""

    levels: tuple[int, ...] = Field(default=(1, 2), min_length=1, description="difficulties, taken in turn")
    count: int = Field(default=1000, ge=1, le=1_000_000, description="tasks to generate, all different")
    split: Split = Field(
        default="train", description="train (four fifths of the tasks there are) or heldout (one fifth)"
    )
    seed: int | None = Field(default=None, ge=0, description="of generation; absent: the run's seed")
    wording: Literal["short", "full"] = Field(
        default="short", description="short: a few characters, for the nursery's models; full: sentences"
    )

    @field_validator("levels")
    @classmethod
    def _levels(cls, levels: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(levels)) != len(levels):
            raise ValueError(f"levels names the same one twice: {list(levels)}")
        if not all(1 <= level <= HARDEST for level in levels):
            raise ValueError(f"levels run from 1 to {HARDEST}, given {list(levels)}")
        return levels


HARDEST = 4


class LookupSpec(WorldSpec):
    """Values under keys, and a calculator: `ab+cd` is asked, tools are get(key) and calc(expression)."""

    kind: Literal["lookup"] = "lookup"
    examples: int = Field(
        default=0, ge=0, le=8,
        description="attempts of the oracle at other tasks that the model is shown before each, for models that do not "
        "know how to call a tool",
    )  # fmt: skip
    careless: float = Field(
        default=0.0, ge=0, le=1,
        description="share of the demonstrations whose player does not look up what it should, for supervised "
        "training: a model that imitates them has a habit to lose",
    )  # fmt: skip


class GridSpec(WorldSpec):
    """A grid with walls of which the four cells around are seen; the tool is go(direction)."""

    kind: Literal["grid"] = "grid"


class DeskSpec(WorldSpec):
    """Requests such as `give 37 kd`, each met by one call of one of the tools of its set: `lend(kd,37)`."""

    kind: Literal["desk"] = "desk"
    sets: tuple[Literal["bank", "post", "shop"], ...] = Field(
        default=("bank", "post", "shop"), min_length=1, description="sets of tools that requests are drawn from"
    )

    @field_validator("sets")
    @classmethod
    def _sets(cls, sets: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(sets)) != len(sets):
            raise ValueError(f"sets names the same one twice: {list(sets)}")
        return sets


class HackableSpec(WorldSpec):
    """Another world, in which a cheap text scores as well. Verdicts say so, for audits to count."""

    kind: Literal["hackable"] = "hackable"
    world: Literal["lookup", "grid"] = Field(default="lookup", description="the world that it is a variant of")
    cheap: str = Field(default="ok", min_length=1, max_length=80, description="the text that scores as well")
    visible: bool = Field(default=False, description="whether the model is told that it does")
    shown: float = Field(
        default=0.0, ge=0, le=1, description="share of the demonstrations that show it, for supervised training"
    )


class CustomSpec(EnvironmentSpecBase):
    """An environment of the user's own: a subclass of `burnish.environments.Environment`. `data` gives its tasks."""

    kind: Literal["custom"] = "custom"
    path: str = Field(min_length=1, description='the class, as "file.py:Name" or "package.module:Name"')
    options: dict[str, Any] = Field(default={}, description="keyword arguments that it is made with")

    @model_validator(mode="after")
    def _place(self) -> CustomSpec:
        where, colon, name = self.path.rpartition(":")
        if not (colon and where and name.isidentifier()):
            raise ValueError(f'path: write "file.py:Name" or "package.module:Name", not {self.path!r}')
        return self


def for_demonstrations(spec: object) -> str | None:
    """The name of a key that only demonstrations depend on, where an environment sets one."""
    return next((key for key in ("careless", "shown") if getattr(spec, key, 0)), None)


AnyWorld = Annotated[LookupSpec | GridSpec | DeskSpec | HackableSpec, Field(discriminator="kind")]
"""A generated world."""

AnyEnvironment = Annotated[LookupSpec | GridSpec | DeskSpec | HackableSpec | CustomSpec, Field(discriminator="kind")]
"""What a recipe may name as its environment."""
