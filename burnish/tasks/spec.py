"""What a recipe says about its tasks: a file of rows, or a generated family. No torch here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Split = Literal["train", "heldout"]
Operation = Literal["+", "-", "*"]


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
    split: Split = Field(default="train", description="train (four fifths of the operand pairs) or heldout (one fifth)")
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


PROMPT, MESSAGES, ANSWER = "prompt", "messages", "answer"
"""Columns that are read when the recipe names none."""

_FILE_KEYS = ("prompt", "answer", "messages", "completion", "template", "limit", "shuffle")


class DataSpec(BaseModel):
    """Where tasks come from: exactly one of `path` (a JSONL file, one row a line) and `family` (generated)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str | None = Field(default=None, min_length=1, description="a JSONL file of rows")
    family: ArithmeticSpec | None = Field(
        default=None, description="a generated family; its name, or its options with `kind`"
    )
    style: Literal["chat", "text"] = Field(
        default="chat", description="chat: a prompt text becomes a user message; text: it is continued as it stands"
    )
    system: str | None = Field(default=None, min_length=1, description="a system message put before every prompt")
    seed: int | None = Field(default=None, ge=0, description="of shuffling or generation; absent: the run's seed")
    prompt: str | None = Field(
        default=None, description="column with the prompt, a text or a list of messages; absent: `prompt`"
    )
    answer: str | None = Field(
        default="answer", description="column with the private answer (`answer` may be absent); null: there is none"
    )
    messages: str | None = Field(
        default=None, description="column with a whole conversation; absent: `messages`, where a row has no `prompt`"
    )
    completion: str = Field(default="completion", description="column with what to imitate, for supervised training")
    template: str | None = Field(default=None, description='a prompt made of columns, such as "{question}\\nAnswer:"')
    limit: int | None = Field(default=None, ge=1, description="use at most this many rows, taken after shuffling")
    shuffle: bool = Field(default=False, description="shuffle the rows once, by the seed")

    @model_validator(mode="before")
    @classmethod
    def _family_by_name(cls, values: Any) -> Any:
        if isinstance(values, dict) and isinstance(values.get("family"), str):
            return {**values, "family": {"kind": values["family"]}}
        return values

    @model_validator(mode="after")
    def _one_origin(self) -> DataSpec:
        # compared with the defaults, since a resolved recipe sets every key
        given = {key for key in _FILE_KEYS if getattr(self, key) != type(self).model_fields[key].default}
        if (self.path is None) == (self.family is None):
            raise ValueError("data needs exactly one of `path` (a JSONL file) and `family` (generated tasks)")
        if self.family is not None and (unused := [key for key in _FILE_KEYS if key in given]):
            raise ValueError(f"{', '.join(unused)}: only for rows of a file, unused with a family; remove from data")
        if self.path is not None and self.seed is not None and not self.shuffle:
            raise ValueError("seed is unused: the rows are not shuffled; add `shuffle: true` or remove it")
        if self.template is not None and self.prompt is not None:
            raise ValueError("the prompt is given twice, by `prompt` and by `template`; remove one")
        if self.messages is not None and (self.prompt is not None or self.template is not None):
            raise ValueError("messages: unused, since `prompt` or `template` says what the prompt is; remove one")
        if self.messages is not None and "completion" in given:
            raise ValueError("completion: unused, since a conversation in `messages` ends with what to imitate; remove")
        if self.system is not None and self.style == "text":
            raise ValueError("a system message needs `style: chat`; a text prompt has no messages")
        return self
