"""Recipes: what a user sets. Each method has its own, so that a key exists only where something reads it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from burnish.control.spec import GuardsSpec, WatchSpec
from burnish.environments.spec import AnyEnvironment, AnyWorld, CustomSpec, for_demonstrations
from burnish.feedback.spec import CheckSpec, FeedbackSpec, NumericSpec
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.models.spec import ModelSpec
from burnish.sampling.spec import COLDEST, MismatchSpec, SamplingSpec
from burnish.sources.spec import AnySelection, EpisodesSpec
from burnish.tasks.spec import DataSpec
from burnish.tasks.training import TrainingDataSpec
from burnish.tracking.spec import TrackerSpec


class EvaluationSpec(BaseModel):
    """Held-out tasks answered before and after training, judged by a check or by an environment.

    By default each is answered once, by the most probable tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    data: DataSpec | None = Field(default=None, description="held-out tasks")
    environment: AnyWorld | None = Field(default=None, description="a world with held-out tasks, in place of data")
    correct: CheckSpec = Field(
        default=NumericSpec(),
        description="when an answer is right: a reward of any kind, with its keys, that is then worth 1",
    )
    max_tokens: int = Field(default=64, ge=1, description="most tokens of an answer, or of a turn")
    samples: int = Field(default=1, ge=1, le=10_000, description="answers to each task; several need a temperature")
    temperature: float = Field(
        default=0.0, ge=0, allow_inf_nan=False, description="of the answers; 0 always takes the most probable token"
    )
    top_k: int = Field(default=0, ge=0, description="sample from the k most probable tokens; 0: no limit")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="sample from the smallest set with this much mass; 1: no limit"
    )
    min_p: float = Field(
        default=0.0, ge=0, le=1, description="leave out tokens below this share of the best one; 0: no limit"
    )
    overlap: Literal["refuse", "tell"] = Field(
        default="refuse",
        description="of held-out tasks that are also trained on: refuse the run, or go on and tell of them",
    )
    every: int = Field(default=0, ge=0, description="also evaluate every so many steps; 0: only before and after")
    concurrency: int = Field(default=64, ge=1, description="tasks evaluated at a time")

    @property
    def sampling(self) -> SamplingSpec:
        """How the answers are drawn."""
        return SamplingSpec(
            max_tokens=self.max_tokens, temperature=self.temperature, top_k=self.top_k, top_p=self.top_p,
            min_p=self.min_p,
        )  # fmt: skip

    @model_validator(mode="after")
    def _drawn(self) -> EvaluationSpec:
        if self.samples > 1 and self.temperature == 0:
            raise ValueError(f"samples: {self.samples} greedy answers are all alike; set temperature, or samples to 1")
        cuts = [key for key, off in (("top_k", 0), ("top_p", 1.0), ("min_p", 0.0)) if getattr(self, key) != off]
        if self.temperature == 0 and cuts:
            raise ValueError(f"{', '.join(cuts)} does nothing at temperature 0 (greedy): remove it or set temperature")
        if 0 < self.temperature < COLDEST:
            raise ValueError(f"temperature: below {COLDEST:g} the logits overflow; 0 takes the most probable token")
        return self

    @model_validator(mode="after")
    def _keys_used(self) -> EvaluationSpec:
        if self.environment is None:
            _require(self, "data")
            return self
        if self.data is not None:
            raise ValueError("the held-out tasks are given twice, by `data` and by `environment`; remove one")
        if self.correct != NumericSpec():
            raise ValueError("correct: unused, since the environment judges its tasks; remove it")
        if key := for_demonstrations(self.environment):
            raise ValueError(f"environment.{key}: for demonstrations, unused in an evaluation; remove it")
        return self


class Recipe(BaseModel):
    """The keys that every method has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str = Field(description="name of the method; `burnish methods` lists them")
    seed: int = Field(default=0, ge=0, description="every random number of the run is a function of it")
    steps: int = Field(default=100, ge=1, le=1_000_000_000, description="steps of the loop")
    prompts_per_step: int = Field(default=8, ge=1, le=1_000_000, description="prompts a step takes")
    model: ModelSpec = Field(description="the model that is trained")
    data: TrainingDataSpec | None = Field(default=None, description="the tasks it is trained on")
    environment: AnyEnvironment | None = Field(
        default=None,
        description="where tasks are attempted; a generated world has tasks and rewards of its own, in place of data "
        "and rewards, and supervised training imitates its oracle",
    )
    optimizer: OptimizerSpec = OptimizerSpec()
    learner: LearnerSpec = LearnerSpec()
    evaluation: EvaluationSpec | None = Field(default=None, description="held-out evaluation before and after")
    traces_every: int = Field(
        default=10, ge=0, description="store the traces of every so many steps, and of the last; 0: none"
    )
    deterministic: bool = Field(
        default=False, description="equal bits whatever else is in flight, also after a resume; slower (promise E2)"
    )
    checkpoint_every: int = Field(
        default=50, ge=0, description="save everything a resume needs every so many steps and at the end; 0: never"
    )
    keep_checkpoints: int = Field(
        default=2, ge=1, description="newest checkpoints that are kept, besides the best by held-out accuracy"
    )
    guards: WatchSpec = Field(default=WatchSpec(), description="what is watched while the run goes on")
    trackers: tuple[TrackerSpec, ...] = Field(default=(), description="where metrics go besides the run directory")
    threads: int | None = Field(default=None, ge=1, le=4096, description="CPU threads of torch; absent: torch decides")

    @model_validator(mode="after")
    def _one_origin(self) -> Recipe:
        if isinstance(self.environment, CustomSpec) and not isinstance(self, RolloutRecipe):
            raise ValueError("environment: only a generated world has an oracle to imitate; give data alone")
        if self.environment is None or isinstance(self.environment, CustomSpec):
            _require(self, "data")
        elif self.data is not None:
            raise ValueError(f"data: unused, since the world {self.environment.kind} has tasks of its own; remove one")
        return self


class RolloutRecipe(Recipe):
    """The keys of methods that learn from their own samples."""

    samples_per_prompt: int = Field(default=8, ge=1, le=100_000, description="samples of each prompt")
    sampling: SamplingSpec = Field(default=SamplingSpec(), description="how samples are drawn")
    mismatch: MismatchSpec | None = Field(
        default=None, description="sample otherwise than the learner would, to study what that does"
    )
    rewards: FeedbackSpec | None = Field(default=None, description="what a sample is worth")
    episodes: EpisodesSpec = Field(default=EpisodesSpec(), description="how attempts in an environment are run")
    selection: AnySelection | None = Field(
        default=None, description="sample more groups than a step trains on, and take those that teach"
    )
    refills: int = Field(
        default=1, ge=0, le=100, description="how often a sample that the machinery spoilt is drawn anew"
    )
    guards: GuardsSpec = Field(default=GuardsSpec(), description="when a run that cannot learn stops")
    engine_rows: int = Field(default=64, ge=1, le=100_000, description="sequences that the engine decodes at once")
    traces_scores: bool = Field(
        default=False,
        description="stored traces also have the learner's log-probability and entropy at every sampled token, from a "
        "forward pass before the update",
    )

    @model_validator(mode="after")
    def _stored(self) -> RolloutRecipe:
        if self.traces_scores and not self.traces_every:
            raise ValueError("traces_scores: unused, since traces_every is 0 and none are stored; remove one")
        return self

    @model_validator(mode="after")
    def _judged(self) -> RolloutRecipe:
        if self.environment is None:
            _require(self, "rewards")
            if self.episodes != EpisodesSpec():
                raise ValueError("episodes: unused without an environment; add `environment`, or remove episodes")
        elif self.rewards is not None:
            raise ValueError("rewards: unused, since the environment judges what is attempted in it; remove one")
        if key := for_demonstrations(self.environment):
            raise ValueError(f"environment.{key}: for supervised training, unused where the model samples; remove it")
        if self.episodes.seconds is not None and self.deterministic:
            raise ValueError(
                "episodes.seconds: what it cuts off depends on the speed of the machine, which `deterministic: true` "
                "forbids; remove one"
            )
        return self

    @model_validator(mode="after")
    def _selected(self) -> RolloutRecipe:
        if self.selection is not None and self.samples_per_prompt == 1:
            raise ValueError(
                "selection: it takes groups by how their samples differ, and samples_per_prompt is 1; raise that, or "
                "remove selection"
            )
        return self

    @model_validator(mode="after")
    def _completion_unused(self) -> RolloutRecipe:
        default = DataSpec.model_fields["completion"].default
        if self.data is not None and any(part.completion != default for part in self.data.parts):
            raise ValueError(f"data.completion is for demonstrations, {self.method} does not use it; remove it")
        return self


def _require(spec: BaseModel, key: str) -> None:
    """Refuse a spec without a key, as pydantic does for one that is always required."""
    if getattr(spec, key) is None:
        missing = {"type": "missing", "loc": (key,), "input": {}}
        raise ValidationError.from_exception_data(type(spec).__name__, [missing])  # type: ignore[list-item]
