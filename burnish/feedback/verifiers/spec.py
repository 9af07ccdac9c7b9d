"""What a recipe says about the built-in verifiers. No torch here. docs/verifiers.md explains each kind."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from burnish.feedback.checks.choices import Rule
from burnish.feedback.checks.final import Read
from burnish.feedback.checks.texts import Normalisation


class RewardSpecBase(BaseModel):
    """What every component of the feedback has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: float = Field(
        default=1.0, allow_inf_nan=False, description="factor in the sum; 0 records without rewarding"
    )
    name: str | None = Field(
        default=None, min_length=1, description="name of the component; absent: the kind or the function"
    )


class _ThoughtfulSpec(RewardSpecBase):
    thoughts_end: str | None = Field(
        default="</think>", min_length=1, description="only what follows its last occurrence is judged; null: all"
    )


class LimitedSpec(_ThoughtfulSpec):
    """A verifier whose checks run in worker processes."""

    kind: str
    time_limit: float = Field(
        default=5.0, gt=0, allow_inf_nan=False,
        description="seconds of processor time to check one answer; beyond, it scores 0",
    )  # fmt: skip
    memory_limit: int = Field(default=1024, ge=16, description="MiB to check one answer; beyond, it scores 0")


class ExactSpec(_ThoughtfulSpec):
    """1 when the answer is the text in the answer column (or one of the texts), 0 otherwise."""

    kind: Literal["exact"] = "exact"
    column: str = Field(default="answer", description="column with the right text, or a list of right texts")
    read: Read = Field(default="whole", description="where the answer stands in the completion")
    normalise: tuple[Normalisation, ...] = Field(default=("space",), description="what makes no difference")


class MathSpec(LimitedSpec):
    """1 when math-verify finds the answer equal to the one in the answer column, 0 otherwise."""

    kind: Literal["math"] = "math"
    column: str = Field(default="answer", description="column with the right answer, in LaTeX or plain")
    read: Literal["any", "boxed"] = Field(
        default="any", description="any: the last expression, a boxed one first; boxed: only the last \\boxed{} counts"
    )
    repair: bool = Field(default=False, description="mend malformed LaTeX of the candidate's, such as \\frac12")


class JsonSchemaSpec(LimitedSpec):
    """1 when the answer is JSON that satisfies the schema, 0 otherwise; with a key column, its fields count too."""

    kind: Literal["json_schema"] = "json_schema"
    column: str = Field(default="schema", description="column with the JSON Schema, an object or JSON text")
    read: Literal["whole", "fenced"] = Field(
        default="whole", description="the JSON is the whole completion, or its last fenced block"
    )
    strict: bool = Field(default=False, description="require every property of the schema and allow no other")
    key: str | None = Field(default=None, description="column with the expected value; its leaf fields are compared")
    valid_share: float = Field(default=0.5, ge=0, le=1, description="with key: what the right form alone is worth")

    @model_validator(mode="after")
    def _share_needs_a_key(self) -> JsonSchemaSpec:
        if self.key is None and self.valid_share != type(self).model_fields["valid_share"].default:
            raise ValueError("valid_share has no use without key, the column with the expected value")
        return self


class ToolCallSpec(LimitedSpec):
    """1 when the tool calls in the answer are the expected ones, in any order, 0 otherwise."""

    kind: Literal["tool_call"] = "tool_call"
    column: str = Field(default="calls", description="column with the expected calls: objects of name and arguments")
    tools: str | None = Field(default="tools", description="column that describes the tools; null: nothing is known")
    credit: Literal["all", "fraction", "f1"] = Field(
        default="all",
        description="all: every call right; fraction: right calls over the longer list; f1: over the mean length",
    )
    name_share: float = Field(default=0.0, ge=0, le=1, description="what the right tool with wrong arguments is worth")
    argument_share: bool = Field(default=False, description="give the rest by the share of right arguments")
    extra_arguments: bool = Field(default=False, description="arguments beside the expected ones make no difference")
    alternatives: bool = Field(
        default=False, description='an expected argument is a list of right values; "" in it: may be absent'
    )

    @model_validator(mode="after")
    def _shares_need_credit(self) -> ToolCallSpec:
        if self.credit == "all" and (self.name_share or self.argument_share):
            raise ValueError("name_share and argument_share have no use with credit all; choose fraction or f1")
        return self


class InstructionsSpec(LimitedSpec):
    """The share of the row's instructions that are followed, checked in the manner of IFEval."""

    kind: Literal["instructions"] = "instructions"
    column: str = Field(default="instruction_id_list", description="column with the ids of the instructions")
    arguments: str = Field(default="kwargs", description="column with one object of arguments for each id")
    loose: bool = Field(
        default=False, description="an answer also passes without its first or last line, or without asterisks"
    )
    credit: Literal["fraction", "all"] = Field(
        default="fraction", description="fraction: the share that is followed; all: 1 if all are, else 0"
    )


class ChoiceSpec(LimitedSpec):
    """1 when the answer names the right option of a multiple choice, 0 otherwise."""

    kind: Literal["choice"] = "choice"
    column: str = Field(default="answer", description="column with the right label, its place from 0, or its text")
    options: str | None = Field(
        default="options", description="column with the options, a list or label: text; null: none, labels A to Z"
    )
    rule: Rule = Field(default="any", description="where the answer stands in the completion")
    pattern: str | None = Field(
        default=None, description="with rule pattern: its last match (or group 1) is the answer"
    )
    option_text: bool = Field(default=True, description="the text of an option stands for its label")

    @field_validator("pattern")
    @classmethod
    def _pattern_compiles(cls, pattern: str | None) -> str | None:
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        return pattern

    @model_validator(mode="after")
    def _pattern_and_rule(self) -> ChoiceSpec:
        if (self.rule == "pattern") != (self.pattern is not None):
            raise ValueError("pattern goes with rule pattern, and rule pattern needs one")
        return self


class CodeSpec(_ThoughtfulSpec):
    """The program in the answer is run in the sandbox against the row's tests: 1 when it passes all, 0 otherwise."""

    kind: Literal["code"] = "code"
    column: str = Field(default="tests", description="column with the tests (docs/verifiers.md has the forms)")
    read: Literal["fenced", "whole"] = Field(
        default="fenced", description="the program is the last fenced block, or the whole completion"
    )
    credit: Literal["all", "fraction"] = Field(
        default="all", description="all: every test passes; fraction: the share of tests that pass"
    )
    time_limit: float = Field(
        default=10.0, gt=0, allow_inf_nan=False, description="seconds for a run of the program; beyond, it has failed"
    )
    memory_limit: int = Field(default=512, ge=16, description="MiB for a run of the program; beyond, it has failed")


class ReasoningGymSpec(LimitedSpec):
    """The score of reasoning-gym for the answer to one of its puzzles, of whatever family."""

    kind: Literal["reasoning_gym"] = "reasoning_gym"
    column: str = Field(default="entry", description="column with the puzzle: question, answer, metadata")
    read: Read = Field(default="tag", description="where the answer stands in the completion")
    partial: bool = Field(default=True, description="keep the library's scores below 1; false: they are 0")


class ClaimsSpec(_ThoughtfulSpec):
    """The claims of the answer, one a line, against the right ones in their order; `credit` says what counts."""

    kind: Literal["claims"] = "claims"
    column: str = Field(
        default="claims", description="column with the right claims: a list with, for each, a text or several"
    )
    read: Read = Field(default="whole", description="where the claims stand in the completion")
    credit: Literal["final", "all", "fraction", "until_wrong"] = Field(
        default="final",
        description="final: 1 if the last claim is right; all: 1 if all are and none is missing; fraction: right "
        "claims over the longer list; until_wrong: those before the first wrong one over the longer list",
    )


class ExpressionSpec(_ThoughtfulSpec):
    """1 when the answer is an expression of the given numbers, each used once, that equals the target, 0 otherwise."""

    kind: Literal["expression"] = "expression"
    column: str = Field(default="target", description="column with the number to reach")
    numbers: str = Field(default="numbers", description="column with the numbers to use, a list")
    read: Read = Field(default="whole", description="where the expression stands in the completion")
    every: bool = Field(default=True, description="whether every number must be used; false: some may be left over")
    form_share: float = Field(
        default=0.0, ge=0, lt=1, description="what an expression with the right numbers and another value is worth"
    )


Verifier = (
    ExactSpec
    | MathSpec
    | JsonSchemaSpec
    | ToolCallSpec
    | InstructionsSpec
    | ChoiceSpec
    | CodeSpec
    | ReasoningGymSpec
    | ClaimsSpec
    | ExpressionSpec
)
"""Specs of the verifiers of this room."""
