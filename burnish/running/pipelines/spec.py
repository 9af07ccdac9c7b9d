"""The kinds of nodes of a pipeline, as data. No torch here.

Wherever a model, a file of rows or an adapter may be named, `@node` names what another node of the pipeline makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.feedback.spec import CheckSpec, FeedbackSpec, NumericSpec
from burnish.models.spec import ModelSpec
from burnish.sampling.spec import SamplingSpec
from burnish.tasks.spec import DataSpec

Made = Literal["model", "adapter", "dataset", "report"]
"""Kinds of artefacts."""


def _check_speaker(model: ModelSpec, data: DataSpec) -> None:
    """What a model that only answers cannot have, and which prompts it can take. Raises ValueError."""
    if model.adapter is not None and model.adapter.path is None:
        raise ValueError("model.adapter: a new adapter changes no answer; give the path of a saved one, or remove it")
    if data.style == "text" and model.template != "plain":
        raise ValueError("data.style: text needs model.template: plain, since a chat template takes messages")


class NodeSpec(BaseModel):
    """What every kind has: the artefact it makes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    makes: ClassVar[Made]


class TrainSpec(NodeSpec):
    """Runs a recipe. The artefact is the trained model, with an adapter merged in."""

    makes: ClassVar[Made] = "model"

    recipe: str | dict[str, Any] = Field(description="path of a recipe, or a recipe")
    set: dict[str, Any] = Field(default={}, description="changes to it by dotted key, such as model.path: '@sft'")


class SampleSpec(NodeSpec):
    """Samples answers to tasks. The artefact is a dataset of groups, one a task."""

    makes: ClassVar[Made] = "dataset"

    model: ModelSpec = Field(description="the model that answers; its path, or its keys")
    data: DataSpec = Field(description="the tasks; the path of a JSONL file, or keys as in a recipe")
    samples_per_prompt: int = Field(default=8, ge=1, le=100_000, description="samples of each prompt")
    sampling: SamplingSpec = Field(default=SamplingSpec(), description="how samples are drawn")
    engine_rows: int = Field(default=64, ge=1, le=100_000, description="sequences that the engine decodes at once")
    deterministic: bool = Field(
        default=False, description="equal bits whatever else is in flight, also when it is resumed; slower"
    )
    seed: int | None = Field(
        default=None, ge=0, description="of the samples; absent: the pipeline's, plus one in each further iteration"
    )

    @model_validator(mode="after")
    def _checked(self) -> SampleSpec:
        _check_speaker(self.model, self.data)
        if self.sampling.temperature == 0 and self.samples_per_prompt > 1:
            raise ValueError("greedy samples of a prompt are all alike: set samples_per_prompt: 1, or a temperature")
        return self


class JudgeSpec(NodeSpec):
    """Judges the samples of a dataset. The artefact is the same dataset with rewards."""

    makes: ClassVar[Made] = "dataset"

    data: str = Field(min_length=1, description="a dataset of this pipeline, such as '@draw'")
    rewards: FeedbackSpec = Field(description="what a sample is worth")


class FilterSpec(NodeSpec):
    """Keeps some samples of a dataset. The artefact is what is kept.

    The conditions hold together, in the order of the keys. A sample whose reward is missing, or that holds no text, is
    never kept.
    """

    makes: ClassVar[Made] = "dataset"

    data: str = Field(min_length=1, description="a dataset of this pipeline, such as '@judged'")
    drop_truncated: bool = Field(default=True, description="drop samples that were cut off by max_tokens")
    drop_equal_rewards: bool = Field(default=False, description="drop groups in which all rewards are equal")
    min_reward: float | None = Field(default=None, allow_inf_nan=False, description="drop samples rewarded below this")
    max_reward: float | None = Field(default=None, allow_inf_nan=False, description="drop samples rewarded above this")
    distinct: bool = Field(default=False, description="of equal texts of a group keep the first")
    best: int | None = Field(default=None, ge=1, description="keep so many samples of each group, the best rewarded")
    at_most: int | None = Field(default=None, ge=1, description="keep so many samples in all, the first")

    @model_validator(mode="after")
    def _bounds(self) -> FilterSpec:
        if self.min_reward is not None and self.max_reward is not None and self.min_reward > self.max_reward:
            raise ValueError(f"min_reward {self.min_reward:g} is above max_reward {self.max_reward:g}: nothing is left")
        return self

    @property
    def reads_rewards(self) -> bool:
        """Whether a condition needs rewards."""
        return self.drop_equal_rewards or any(v is not None for v in (self.min_reward, self.max_reward, self.best))


class SavedAdapterSpec(BaseModel):
    """An adapter that peft saved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1, description="folder of the adapter")


class PartSpec(BaseModel):
    """A model that is merged; its path alone may stand in its place."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(min_length=1, description="as `model.path` of a recipe")
    adapter: SavedAdapterSpec | None = Field(default=None, description="an adapter that is merged in first")


class MergeSpec(NodeSpec):
    """Averages the weights of models of one shape. The artefact is a model."""

    makes: ClassVar[Made] = "model"

    models: tuple[PartSpec, ...] = Field(min_length=2, description="the models, of one architecture and shape")
    weights: tuple[float, ...] | None = Field(
        default=None, description="factor of each model in the sum; absent: all alike, with sum 1"
    )
    any_sum: bool = Field(default=False, description="let the weights sum to something other than 1")
    dtype: Literal["float32", "bfloat16", "float64"] = Field(
        default="float32", description="type the result is stored in; it is computed in float32 at least"
    )

    @model_validator(mode="after")
    def _one_each(self) -> MergeSpec:
        if self.any_sum and self.weights is None:
            raise ValueError("any_sum is unused: without weights their sum is 1; give weights or remove it")
        if self.weights is None:
            return self
        if len(self.weights) != len(self.models):
            raise ValueError(f"{len(self.weights)} weights for {len(self.models)} models: give one for each")
        total = sum(self.weights)
        if not abs(total) < float("inf"):
            raise ValueError(f"weights must be finite numbers, not {list(self.weights)}")
        if abs(total - 1) > 1e-6 and not self.any_sum:
            raise ValueError(f"the weights sum to {total:g}, not 1: change them, or set any_sum: true if that is meant")
        return self

    @property
    def factors(self) -> tuple[float, ...]:
        """One factor for each model."""
        return self.weights or tuple(1 / len(self.models) for _ in self.models)


class EvaluateSpec(NodeSpec):
    """Answers tasks greedily and counts the right answers. The artefact is a report."""

    makes: ClassVar[Made] = "report"

    model: ModelSpec = Field(description="the model that answers; its path, or its keys")
    data: DataSpec = Field(description="the tasks; the path of a JSONL file, or keys as in a recipe")
    correct: CheckSpec = Field(
        default=NumericSpec(),
        description="when an answer is right: a reward of any kind, with its keys, that is then worth 1",
    )
    max_tokens: int = Field(default=64, ge=1, description="most tokens of an answer")
    concurrency: int = Field(default=64, ge=1, description="tasks evaluated at a time")
    seed: int | None = Field(default=None, ge=0, description="of the tasks; absent: the pipeline's")

    @model_validator(mode="after")
    def _checked(self) -> EvaluateSpec:
        _check_speaker(self.model, self.data)
        return self


KINDS: Mapping[str, type[NodeSpec]] = {
    "train": TrainSpec,
    "sample": SampleSpec,
    "judge": JudgeSpec,
    "filter": FilterSpec,
    "merge": MergeSpec,
    "evaluate": EvaluateSpec,
}
"""The kinds of nodes by name."""
