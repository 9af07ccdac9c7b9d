"""Which tasks a step takes: mixed by weight, in stages, epoch after epoch. A pure function of the step.

Nothing has to be remembered, so a resumed run takes what it would have taken. The one order that remembers something,
since it goes by what the run has measured, is in sources/window.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from burnish.errors import InputError
from burnish.randomness import counter_generator, stable_hash
from burnish.sources.priority import PriorityOrder
from burnish.sources.window import MeasuredOrder
from burnish.tasks import Task
from burnish.tasks.choosing import difficulties, in_stage
from burnish.tasks.shares import Shares
from burnish.tasks.training import CurriculumSpec, TrainingDataSpec

MEASURING = (MeasuredOrder, PriorityOrder)
"""Orders that go by what the run has measured, and so remember something."""


class Order(Protocol):
    """Which tasks a step takes."""

    tasks: list[Task]
    per_step: int

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The step's tasks, each with a number that grows whenever that task is taken again."""
        ...


class TaskOrder:
    """A seeded permutation of the tasks per epoch; with weights, each part of a mix has epochs of its own.

    The places of all steps go to the parts by `Shares`: after any number of places a part has had its share of them,
    rounded up or down. `stage` tells apart orders of one run.
    """

    def __init__(
        self, tasks: Sequence[Task], per_step: int, seed: int, *, weights: Sequence[float] = (1.0,), stage: int = 0
    ) -> None:
        if not tasks:
            raise InputError("there is nothing to train on: the list of tasks is empty")
        self.tasks, self.per_step, self.seed, self.stage = list(tasks), per_step, seed, stage
        self.shares = Shares(weights)
        alone = len(weights) == 1
        self.parts = [[t for t in tasks if alone or t.part == part] for part in range(len(weights))]
        for part, share in enumerate(self.shares.shares):
            self._check(part, share)
        self._shuffled: dict[int, tuple[int, list[int]]] = {}

    def _check(self, part: int, share: int) -> None:
        """Refuse a part that cannot fill its share of a step."""
        if share and not self.parts[part]:
            raise InputError(f"part {part} of the mix has no tasks: give it some, or the weight 0 in this stage")
        least = self.per_step * share // self.shares.period
        if least > len(self.parts[part]) and len(self.parts) > 1:
            raise InputError(
                f"each step takes {least} prompts of part {part} of the mix, which has only {len(self.parts[part])}: "
                "give it more tasks or a smaller weight, or lower prompts_per_step"
            )

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The step's tasks, each with the number of times it was taken before."""
        first = step * self.per_step
        return [self.pick(*self.shares.at(place)) for place in range(first, first + self.per_step)]

    def pick(self, part: int, index: int) -> tuple[Task, int]:
        """Of one part alone, the task at a place, counted over all epochs, and the epoch."""
        tasks = self.parts[part]
        epoch, place = divmod(index, len(tasks))
        known, order = self._shuffled.get(part, (-1, []))
        if epoch != known:
            apart = () if (part, self.stage) == (0, 0) else (part, self.stage)
            generator = counter_generator(self.seed, stable_hash("task order"), epoch, *apart)
            order = generator.permutation(len(tasks)).tolist()
            self._shuffled[part] = (epoch, order)
        return tasks[order[place]], epoch

    def epochs(self, steps: int) -> int:
        """The most epochs that a part has begun after so many steps."""
        return self.begun(steps * self.per_step)

    def begun(self, places: int) -> int:
        """The most epochs that a part has begun after so many places."""
        counts = [(self.shares.before(places, part), len(tasks)) for part, tasks in enumerate(self.parts) if tasks]
        return max(-(-count // length) for count, length in counts)


class StagedOrder:
    """The stages of a curriculum, each a `TaskOrder` over its own tasks from its own beginning."""

    def __init__(self, stages: Sequence[tuple[int, TaskOrder]]) -> None:
        self.stages = list(stages)
        self.per_step = self.stages[0][1].per_step
        found = {id(task): task for _, order in self.stages for task in order.tasks}
        self.tasks = list(found.values())
        self._taken = [0]  # a number that no earlier stage has given a task
        for (start, order), (end, _) in zip(self.stages, self.stages[1:], strict=False):
            self._taken.append(self._taken[-1] + order.epochs(end - start))

    def stage_of(self, step: int) -> int:
        """The number of the stage that a step belongs to."""
        return max(number for number, (start, _) in enumerate(self.stages) if start <= step)

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The step's tasks, each with a number that grows whenever that task is taken again."""
        number = self.stage_of(step)
        start, order = self.stages[number]
        return [(task, self._taken[number] + epoch) for task, epoch in order.at(step - start)]


def build_order(tasks: Sequence[Task], per_step: int, seed: int, data: TrainingDataSpec | None = None) -> Order:
    """The order in which steps take tasks, as `data` says; without it, one permutation per epoch.

    Raises InputError when there are no tasks, when a stage or a part has none, and for a stage by difficulty when a
    task has none.
    """
    if data is None:
        return TaskOrder(tasks, per_step, seed)
    weights = [part.weight for part in data.mix] or [1.0]
    stages = [(0, TaskOrder(tasks, per_step, seed, weights=weights))] if data.curriculum is None else list(
        _stages(tasks, per_step, seed, weights, data.curriculum)
    )  # fmt: skip
    if data.window is not None and data.window.measured:
        return MeasuredOrder(stages, data.window)
    if data.priority is not None:
        return PriorityOrder(stages, data.priority, seed)
    return stages[0][1] if len(stages) == 1 else StagedOrder(stages)


def _stages(
    tasks: Sequence[Task], per_step: int, seed: int, weights: Sequence[float], curriculum: CurriculumSpec
) -> Sequence[tuple[int, TaskOrder]]:
    limited = any(value is not None for stage in curriculum.stages for value in (stage.low, stage.high))
    difficulty = difficulties(tasks, curriculum.column) if limited else [0.0] * len(tasks)
    found = []
    for number, stage in enumerate(curriculum.stages):
        chosen = in_stage(tasks, difficulty, stage)
        if len(chosen) < per_step:
            raise InputError(
                f"data.curriculum.stages.{number}: {len(chosen) or 'no'} tasks have its difficulty, and a step takes "
                f"{per_step}; difficulties lie between {min(difficulty):g} and {max(difficulty):g}: widen the stage"
            )
        try:
            order = TaskOrder(chosen, per_step, seed, weights=stage.weights or weights, stage=number)
        except InputError as error:
            raise InputError(f"data.curriculum.stages.{number}: {error}") from None
        found.append((stage.start, order))
    return found
