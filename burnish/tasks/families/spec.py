"""What a recipe says about a generated family. No torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Split = Literal["train", "heldout"]
Operation = Literal["+", "-", "*"]
Takes = Literal["number", "pair", "text", "list"]
Wording = Literal["short", "full"]

HARDEST = 4
"""The highest level."""


class ArithmeticSpec(BaseModel):
    """Generated sums, differences and products of two whole numbers with the same number of digits.

    Train and held-out items share no pair of operands, in whatever order, with whatever operation, seed or count: the
    split is a hash of the pair.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["arithmetic"] = "arithmetic"
    operations: tuple[Operation, ...] = Field(default=("+",), min_length=1, description="drawn from with equal chance")
    digits: tuple[int, ...] = Field(
        default=(2,), min_length=1, description="digits of both operands, drawn with equal chance"
    )
    count: int = Field(default=1000, ge=1, description="items to generate, all different")
    split: Split = Field(
        default="train", description="train (four fifths of the items there are) or heldout (one fifth)"
    )
    negative: bool = Field(
        default=False, description="whether a difference may be negative; if not, the larger comes first"
    )
    question: str | None = Field(
        default=None,
        description="how it is asked, with {a}, {op} and {b}; absent: a sentence for chat, '{a}{op}{b}=' for text",
    )

    @model_validator(mode="after")
    def _consistent(self) -> ArithmeticSpec:
        for name in ("operations", "digits"):
            values = getattr(self, name)
            if len(set(values)) != len(values):
                raise ValueError(f"{name} names the same value twice: {list(values)}")
        if not all(1 <= d <= 9 for d in self.digits):
            raise ValueError(f"digits must each lie between 1 and 9, got {list(self.digits)}")
        if self.negative and "-" not in self.operations:
            raise ValueError('negative: unused without the operation "-"; add it to operations, or remove negative')
        if self.question is not None:
            absent = [part for part in ("{a}", "{op}", "{b}") if part not in self.question]
            if absent:
                raise ValueError(f"question must hold {{a}}, {{op}} and {{b}}; {', '.join(absent)} is absent")
        return self


class LevelledSpec(BaseModel):
    """What the families with levels have. Train and held-out items share none, whatever their seeds and counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    levels: tuple[int, ...] = Field(default=(1, 2), min_length=1, description="difficulties from 1 to 4, taken in turn")
    count: int = Field(default=1000, ge=1, description="items to generate, all different")
    split: Split = Field(
        default="train", description="train (four fifths of the items there are) or heldout (one fifth)"
    )
    wording: Wording = Field(
        default="full", description="full: sentences; short: a few characters, for the nursery's models"
    )
    examples: int = Field(
        default=0, ge=0, le=8, description="other items of the level with their answers, as earlier turns before each"
    )

    @field_validator("levels")
    @classmethod
    def _levels(cls, levels: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(levels)) != len(levels):
            raise ValueError(f"levels names the same one twice: {list(levels)}")
        if not all(1 <= level <= HARDEST for level in levels):
            raise ValueError(f"levels run from 1 to {HARDEST}, given {list(levels)}")
        return levels


class ProgramsSpec(LevelledSpec):
    """Python functions to write, with hidden tests, for rewards of kind `code`. The level is how many steps they take.

    The split is a hash of what the function does, so no function that is trained on is held out in another guise.
    """

    kind: Literal["programs"] = "programs"
    takes: tuple[Takes, ...] = Field(
        default=("number", "pair", "text", "list"),
        min_length=1,
        description="what the functions take, drawn with equal chance; pair is two numbers",
    )

    @field_validator("takes")
    @classmethod
    def _takes(cls, takes: tuple[Takes, ...]) -> tuple[Takes, ...]:
        if len(set(takes)) != len(takes):
            raise ValueError(f"takes names the same one twice: {list(takes)}")
        return takes


class RecordsSpec(LevelledSpec):
    """Facts about people to write as JSON that fits a schema, for rewards of kind `json_schema` with `key: right`.

    Level 1 asks for a name and a fact, 2 for two facts, 3 for two of three, and 4 for two people, one inside the other.
    The split is a hash of the facts.
    """

    kind: Literal["records"] = "records"
    careless: float = Field(
        default=0.0, ge=0, le=1,
        description="share of the demonstrations that leave the last field out, for a model with something to unlearn",
    )  # fmt: skip


AnyFamily = Annotated[ArithmeticSpec | ProgramsSpec | RecordsSpec, Field(discriminator="kind")]
"""A generated family."""
