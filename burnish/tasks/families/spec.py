"""What a recipe says about a generated family. No torch here."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Split = Literal["train", "heldout"]
Operation = Literal["+", "-", "*"]
Takes = Literal["number", "pair", "text", "list"]
Wording = Literal["short", "full"]
Symbols = Literal["brackets", "sort", "copy"]

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


class ModularSpec(LevelledSpec):
    """Chains of additions, subtractions and products modulo a number, each step written, for rewards of kind `claims`.

    Three steps for each level. The split is a hash of modulus, first number and steps.
    """

    kind: Literal["modular"] = "modular"
    moduli: tuple[int, ...] = Field(
        default=(7, 11, 13), min_length=1, description="moduli from 2 to 99, drawn from with equal chance"
    )

    @field_validator("moduli")
    @classmethod
    def _moduli(cls, moduli: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(moduli)) != len(moduli):
            raise ValueError(f"moduli names the same one twice: {list(moduli)}")
        if not all(2 <= modulus <= 99 for modulus in moduli):
            raise ValueError(f"moduli run from 2 to 99, given {list(moduli)}")
        return moduli


class CountdownSpec(LevelledSpec):
    """Numbers and a target to reach with each number once, for rewards of kind `expression`.

    Level 1 has three numbers and + -, level 2 also *, level 3 four numbers, and level 4 larger ones and /. The split is
    a hash of numbers and target.
    """

    kind: Literal["countdown"] = "countdown"


class KnightsSpec(LevelledSpec):
    """Knights, who tell the truth, and knaves, who lie: who is what, case by case, for rewards of kind `claims`.

    Two people at level 1 and one more at each further level. One solution each. The split is a hash of what is said, in
    whatever order and whatever the names.
    """

    kind: Literal["knights"] = "knights"


class SymbolsSpec(LevelledSpec):
    """Texts without a meaning: close what brackets are open, sort letters, copy; for rewards of kind `exact`.

    The level says how long they are: 3 to 5 characters, 6 to 8, 9 to 12, 13 to 16. The split is a hash of task and
    text.
    """

    kind: Literal["symbols"] = "symbols"
    tasks: tuple[Symbols, ...] = Field(
        default=("brackets", "sort", "copy"), min_length=1, description="what is asked, drawn from with equal chance"
    )

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, tasks: tuple[Symbols, ...]) -> tuple[Symbols, ...]:
        if len(set(tasks)) != len(tasks):
            raise ValueError(f"tasks names the same one twice: {list(tasks)}")
        return tasks


AnyFamily = Annotated[
    ArithmeticSpec | ProgramsSpec | RecordsSpec | ModularSpec | CountdownSpec | KnightsSpec | SymbolsSpec,
    Field(discriminator="kind"),
]
"""A generated family."""
