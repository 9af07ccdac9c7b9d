"""What a recipe says about the tasks that are trained on: one origin or a mix, a window of pass rates, a curriculum.

Evaluations have none of this: their data is a `DataSpec`.
"""

from __future__ import annotations

from itertools import pairwise

from pydantic import BaseModel, ConfigDict, Field, model_validator

from burnish.tasks.shares import whole_shares
from burnish.tasks.spec import DataSpec, check_origin


class PartSpec(DataSpec):
    """A part of a mix: its own rows or family, and how often it is drawn from."""

    weight: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="its share of the prompts, beside the other parts' weights"
    )


class WindowSpec(BaseModel):
    """Tasks that are neither too easy nor too hard: those whose pass rate lies between two bounds, both included.

    With `column` the rates are recorded in the data, and tasks outside are never taken. Without, they are measured in
    the run: the share of a task's samples whose reward reaches `passing`, when it was last taken. A task that then lies
    outside is left out for the next `rest` epochs; one that was not measured yet is taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    low: float = Field(default=0.0, ge=0, le=1, description="lowest pass rate")
    high: float = Field(default=1.0, ge=0, le=1, description="highest pass rate")
    column: str | None = Field(
        default=None, min_length=1, description="column with recorded pass rates; absent: they are measured in the run"
    )
    passing: float = Field(
        default=1.0, allow_inf_nan=False, description="reward from which a sample has passed, where rates are measured"
    )
    rest: int = Field(
        default=1, ge=1, description="epochs for which a task outside is left out, where rates are measured"
    )

    @model_validator(mode="after")
    def _bounds(self) -> WindowSpec:
        if self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}: no pass rate lies between them")
        if (self.low, self.high) == (0, 1):
            raise ValueError("every pass rate lies between 0 and 1: set low or high, or remove window")
        unused = [k for k in ("passing", "rest") if getattr(self, k) != WindowSpec.model_fields[k].default]
        if self.column is not None and unused:
            raise ValueError(f"{', '.join(unused)}: unused, since `column` has the pass rates; remove")
        return self

    @property
    def measured(self) -> bool:
        """Whether the rates are those of the run."""
        return self.column is None


class PrioritySpec(BaseModel):
    """Tasks that the policy fails at are taken more often, by the success rates that the run measures.

    The chance of a task is proportional to max(floor, 1 - s); s is the share of its samples whose reward reaches
    `passing`, averaged over the times it was taken. One that was not measured yet counts as never solved.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    passing: float = Field(default=1.0, allow_inf_nan=False, description="reward from which a sample has passed")
    floor: float = Field(
        default=0.05, gt=0, le=1, description="weight of a task that is always solved; one never solved has weight 1"
    )
    memory: float = Field(
        default=0.5, ge=0, lt=1, description="share that the old rate keeps when a task is measured again"
    )


class StageSpec(BaseModel):
    """A stage of a curriculum: from step `start` on, until the next one starts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: int = Field(default=0, ge=0, description="steps that are done when it starts; 0 for the first")
    low: float | None = Field(default=None, allow_inf_nan=False, description="lowest difficulty that is taken")
    high: float | None = Field(default=None, allow_inf_nan=False, description="highest difficulty that is taken")
    weights: tuple[float, ...] | None = Field(
        default=None, description="weights of the parts of the mix in this stage; 0 leaves one out"
    )

    @model_validator(mode="after")
    def _bounds(self) -> StageSpec:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"low {self.low:g} is above high {self.high:g}: no difficulty lies between them")
        return self


class CurriculumSpec(BaseModel):
    """Stages, each with tasks of its own: by their difficulty, by the part of the mix they come from, or both."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str | None = Field(
        default=None,
        min_length=1,
        description="column with the difficulty, a number; absent: a family's own, or the column `difficulty`",
    )
    stages: tuple[StageSpec, ...] = Field(min_length=1, description="the stages, in order of their start")

    @model_validator(mode="after")
    def _in_order(self) -> CurriculumSpec:
        starts = [stage.start for stage in self.stages]
        if starts[0] != 0:
            raise ValueError(f"the first stage starts after {starts[0]} steps, and nothing is said of those before; 0")
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise ValueError(f"the stages start after {starts} steps: each must start later than the one before")
        limited = any(value is not None for stage in self.stages for value in (stage.low, stage.high))
        if self.column is not None and not limited:
            raise ValueError("column: unused, since no stage has `low` or `high`; add one, or remove column")
        if not limited and all(stage.weights is None for stage in self.stages):
            raise ValueError("no stage says which tasks it takes: give it low, high or weights")
        return self


class TrainingDataSpec(DataSpec):
    """The tasks that are trained on: one origin as in `DataSpec`, or several in a `mix`."""

    mix: tuple[PartSpec, ...] = Field(
        default=(), description="several origins instead of one, each with its keys and a weight"
    )
    window: WindowSpec | None = Field(default=None, description="only tasks whose pass rate lies between bounds")
    priority: PrioritySpec | None = Field(default=None, description="take tasks that are failed more often")
    curriculum: CurriculumSpec | None = Field(default=None, description="stages with tasks of their own")

    @model_validator(mode="after")
    def _one_origin(self) -> TrainingDataSpec:
        if not self.mix:
            check_origin(self)
        else:
            fields = DataSpec.model_fields
            given = [key for key in fields if getattr(self, key) != fields[key].default]
            if given:
                raise ValueError(f"{', '.join(given)}: unused beside `mix`; put it into the parts")
            if len(self.mix) == 1:
                raise ValueError("mix: it has one part alone; write its keys into data")
            whole_shares([part.weight for part in self.mix])
        if self.priority is not None and self.window is not None and self.window.measured:
            raise ValueError(
                "priority: unused beside a window that is measured, which chooses by rates too; remove one"
            )
        _check_weights(self)
        return self

    @property
    def parts(self) -> tuple[DataSpec, ...]:
        """Every origin: the parts of a mix, or the one there is."""
        return self.mix or (self,)


def _check_weights(spec: TrainingDataSpec) -> None:
    for number, stage in enumerate(spec.curriculum.stages if spec.curriculum else ()):
        if stage.weights is None:
            continue
        if not spec.mix:
            raise ValueError(f"curriculum.stages.{number}.weights: unused without `mix`; remove it")
        if len(stage.weights) != len(spec.mix):
            raise ValueError(
                f"curriculum.stages.{number}.weights: {len(stage.weights)} weights for {len(spec.mix)} parts of the mix"
            )
        whole_shares(stage.weights)
