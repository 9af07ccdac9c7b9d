"""What a recipe says about judging: one reward, or several with weights. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_serializer, model_validator
from pydantic.json_schema import SkipJsonSchema

from burnish.feedback.verifiers.spec import RewardSpecBase, Verifier


class NumericSpec(RewardSpecBase):
    """1 when the number in the completion equals the one in the answer column, 0 otherwise."""

    kind: Literal["numeric"] = "numeric"
    column: str = Field(default="answer", description="column with the right number")
    mode: Literal["last_number", "exact"] = Field(
        default="last_number",
        description="last_number: the last number counts; exact: the completion is only the number",
    )
    tolerance: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="largest absolute difference still right"
    )
    fractions: bool = Field(
        default=False, description="read 3/4 as one number; done for rows whose right answer is so written"
    )


class FormatSpec(RewardSpecBase):
    """1 when the completion is a number and nothing else, right or wrong; 0 otherwise."""

    kind: Literal["format"] = "format"
    fractions: bool = Field(default=False, description="whether 3/4 is a number")


class FunctionSpec(RewardSpecBase):
    """A reward function of the user's own: `def reward(completions, **columns) -> list[float | None]`.

    It is called once per group: `completions` are the group's texts, each column of the data row a list of the same
    length. It may be `async`. None is a missing reward, which leaves the statistics; it never becomes 0.
    """

    kind: Literal["function"] = "function"
    function: str | SkipJsonSchema[Callable[..., Any]] = Field(
        description='"file.py:name", "package.module:name", or a callable'
    )
    time_limit: float = Field(
        default=30.0, gt=0, allow_inf_nan=False, description="seconds a call may take; then it is missing"
    )

    @field_serializer("function")
    def _function_name(self, function: str | Callable[..., Any]) -> str:
        if isinstance(function, str):
            return function
        return (
            f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        )


RewardSpec = Annotated[NumericSpec | FormatSpec | Verifier | FunctionSpec, Field(discriminator="kind")]

KINDS: tuple[str, ...] = tuple(spec.model_fields["kind"].default for spec in get_args(get_args(RewardSpec)[0]))
"""Every kind of reward."""


def _check_of(values: Any) -> Any:
    """A kind alone is written out, and keys without a kind are those of the numeric check."""
    if isinstance(values, str):
        return {"kind": values}
    return {"kind": "numeric", **values} if isinstance(values, dict) else values


def _not_weighted(spec: RewardSpecBase) -> RewardSpecBase:
    fields = RewardSpecBase.model_fields
    if unused := [key for key in ("weight", "name") if getattr(spec, key) != fields[key].default]:
        raise ValueError(f"correct.{', correct.'.join(unused)}: only for rewards, unused here; remove")
    return spec


KEYS_OF_DEFAULT = "keys of the default"
"""Of the kinds that a field so marked takes, a list of keys holds the default's alone; the others stand elsewhere."""

CheckSpec = Annotated[RewardSpec, AfterValidator(_not_weighted), BeforeValidator(_check_of), KEYS_OF_DEFAULT]
"""One verifier of any kind that tells right answers from wrong ones: an answer is right when it is worth 1."""


class GateSpec(BaseModel):
    """A component that must reach a value, or what it gates counts nothing: docs/verifiers.md has the formula."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    component: str = Field(description="name of the component that must reach it")
    least: float = Field(allow_inf_nan=False, description="the value from which on the gate is open")
    gates: tuple[str, ...] = Field(
        default=(), description="names of the components that it gates; none: the whole reward, which is then 0"
    )


class FeedbackSpec(BaseModel):
    """The weighted sum of named rewards. A reward (or its kind), or a list of them, may stand in its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rewards: tuple[RewardSpec, ...] = Field(min_length=1, description="what is summed")
    gates: tuple[GateSpec, ...] = Field(default=(), description="components that decide whether others count")
    concurrency: int = Field(
        default=8, ge=1, description="groups judged at a time; 1 if a function may not run beside itself"
    )
    workers: int = Field(default=2, ge=1, description="processes that check answers, where a kind needs them")

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, values: Any) -> Any:
        values = [values] if isinstance(values, str) else values
        if isinstance(values, list):
            return {"rewards": [{"kind": value} if isinstance(value, str) else value for value in values]}
        if callable(values) and not isinstance(values, type):
            return {"rewards": [{"kind": "function", "function": values}]}
        if isinstance(values, dict) and "kind" in values:
            shared = {key: values[key] for key in cls.model_fields if key in values}
            return {"rewards": [{key: value for key, value in values.items() if key not in shared}], **shared}
        if isinstance(values, dict) and "rewards" not in values:
            raise ValueError(f"a reward needs its kind: {', '.join(KINDS)}; or give a list of rewards")
        return values
