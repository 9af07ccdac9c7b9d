"""What a study's file says: methods, models, tasks, seeds, one budget, and what is claimed before it runs. No torch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Unit = Literal["steps", "prompts", "sampled_tokens", "trained_tokens", "flops", "seconds"]
"""What a budget is counted in, as the ledger counts it (docs/ledger.md); evaluations are left out."""

SETTABLE = ("steps", "prompts")
"""Units in which the number of steps follows from the budget. In the others a method says how many steps it takes, and
the ledger says afterwards what they cost."""

Metric = Literal["last", "best", "last_mean", "area"]
"""Of the measures of a curve (curves.py) those that a claim may be about."""

Scope = Literal["in", "across", "all", "lowest"]
"""Which categories of the held-out tasks count: those that the task trains on, the others, all; or the one category
with the lowest lift."""


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class BudgetSpec(_Spec):
    """What every cell may spend."""

    unit: Unit = Field(description="what is counted")
    amount: float = Field(gt=0, allow_inf_nan=False, description="how much of it a cell may spend")
    beyond: float = Field(
        default=1.0, ge=1, le=100, description="cells go on until so many times the budget, to see what more time does"
    )
    tolerance: float = Field(
        default=0.02, ge=0, lt=1, description="share of the budget by which a cell may miss it and count as equal"
    )
    unequal: bool = Field(
        default=False, description="let cells miss the budget by more; they are marked in the table, not compared"
    )


class StageSpec(_Spec):
    """A recipe that a method runs, with changes."""

    recipe: str | dict[str, Any] = Field(description="a recipe's file, or a recipe written out")
    set: dict[str, Any] = Field(default_factory=dict, description="changes to it, by dotted key")
    share: float = Field(default=1.0, gt=0, le=1, description="part of the budget that this stage may spend")


class MethodSpec(_Spec):
    """What is compared: a recipe, or stages of which each goes on with the model of the one before."""

    stages: tuple[StageSpec, ...] = Field(min_length=1, description="recipes in their order; their shares sum to 1")

    @model_validator(mode="before")
    @classmethod
    def _one(cls, values: Any) -> Any:
        """`recipe` and `set` alone stand for one stage."""
        if isinstance(values, dict) and "stages" not in values:
            return {"stages": [values]}
        return values

    @model_validator(mode="after")
    def _whole(self) -> MethodSpec:
        if abs(sum(stage.share for stage in self.stages) - 1) > 1e-9:
            raise ValueError(f"the shares of the stages sum to {sum(s.share for s in self.stages):g}: make that 1")
        return self


class ModelEntry(_Spec):
    """A model that every method starts from."""

    set: dict[str, Any] = Field(description="keys that every recipe gets, `model.path` above all")
    seeds: int | None = Field(default=None, ge=2, le=1000, description="seeds of this model; absent: the study's")


class TaskEntry(_Spec):
    """What is trained on."""

    set: dict[str, Any] = Field(description="keys that every recipe gets: `environment`, or `data`")
    rollouts: dict[str, Any] = Field(
        default_factory=dict, description="keys that recipes get which learn from samples: `rewards`, `sampling`"
    )
    categories: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="categories of the held-out tasks that this trains on; absent: all"
    )


class TestSpec(_Spec):
    """The held-out tasks: the same for every cell, and evaluated at the same parts of the budget."""

    __test__ = False  # pytest takes a class of this name for one of its own

    evaluation: dict[str, Any] = Field(description="as `evaluation` of a recipe, without `every`")
    category: str | None = Field(
        default=None,
        description="column of the tasks that tells their category; difficulty and domain are taken too",
    )
    points: int = Field(default=4, ge=1, le=1000, description="evaluations within the budget, besides the one before")


class PrimarySpec(_Spec):
    """What decides, said before anything runs."""

    metric: Metric = Field(default="last", description="which measure of a curve is compared")
    scope: Scope = Field(default="in", description="on which categories")
    direction: Literal["higher", "lower"] = Field(default="higher", description="what is better")
    smallest: float = Field(gt=0, allow_inf_nan=False, description="smallest effect of interest")
    control: str = Field(description="the method that the others are compared with")


class SideSpec(_Spec):
    """Cells that a claim takes the mean of: those of a method, those of some tasks, or of both."""

    method: str | None = Field(default=None, description="a method; absent: all")
    tasks: tuple[str, ...] | None = Field(default=None, min_length=1, description="some tasks; absent: all")


class ClaimSpec(_Spec):
    """One more comparison: `better` has a higher value than `than`, cell by cell of a seed averaged."""

    claim: str = Field(min_length=1, description="in words")
    better: SideSpec = Field(description="cells of which the claim says that they are better")
    than: SideSpec = Field(description="than these")
    metric: Metric = Field(default="last", description="which measure of a curve is compared")
    scope: Scope = Field(default="in", description="on which categories")
    smallest: float | None = Field(default=None, gt=0, description="smallest effect of interest; absent: the primary's")


class StudySpec(_Spec):
    """A study: methods x models x tasks x seeds under one budget."""

    study: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$", description="its name, and that of its folder of results")
    question: str = Field(min_length=1, description="what it is to answer, in a sentence")
    row: str | None = Field(default=None, description="the row of the list of methods that it belongs to")
    budget: BudgetSpec = Field(description="what every cell may spend")
    primary: PrimarySpec = Field(description="what decides")
    claims: tuple[ClaimSpec, ...] = Field(default=(), description="further comparisons")
    seeds: int = Field(ge=2, le=1000, description="paired seeds: 0 and up")
    models: dict[str, ModelEntry] = Field(min_length=1, description="name -> model")
    tasks: dict[str, TaskEntry] = Field(min_length=1, description="name -> what is trained on")
    methods: dict[str, MethodSpec] = Field(min_length=2, description="name -> method")
    test: TestSpec = Field(description="the held-out tasks")
    last: int = Field(default=3, ge=1, description="evaluations that `last_mean` is the mean of")
