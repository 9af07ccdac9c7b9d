"""Tasks that are neither too easy nor too hard for the policy, by the pass rates that the run itself has measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnish.tasks import Task
from burnish.tasks.training import WindowSpec
from burnish.traces import Group

if TYPE_CHECKING:
    from burnish.sources.order import TaskOrder


class MeasuredOrder:
    """Goes through each part's epochs, and passes over the tasks that were last measured outside of the window.

    A task's pass rate is the share of its judged samples whose reward reaches `window.passing`. One that lies outside
    is passed over in the next `window.rest` epochs, then taken and measured again: the policy may have changed. What is
    taken depends on what was measured, so this order has a state; steps are asked for one after the other.
    """

    def __init__(self, stages: Sequence[tuple[int, TaskOrder]], window: WindowSpec) -> None:
        self.stages, self.window = list(stages), window
        self.per_step = self.stages[0][1].per_step
        self.tasks = list({id(task): task for _, order in self.stages for task in order.tasks}.values())
        self._stage, self._first, self._place = 0, 0, 0
        self._next = [0] * len(self.stages[0][1].parts)
        self._measured: dict[str, tuple[float, int]] = {}
        self._waiting: list[tuple[str, int, Group]] = []

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The tasks of the next step, each with a number that grows whenever that task is taken again."""
        return self.take(step, self.per_step)

    def take(self, step: int, count: int) -> list[tuple[Task, int]]:
        """The next tasks, however many a step asks for, and however often."""
        self._settle()
        number = max(n for n, (start, _) in enumerate(self.stages) if start <= step)
        if number != self._stage:
            self._begin(number)
        order, first = self.stages[number][1], self._place
        self._place += count
        return [self._take(order, order.shares.at(place)[0]) for place in range(first, first + count)]

    def _begin(self, number: int) -> None:
        """Go on to a stage: its epochs are counted on from those of the stages before."""
        before = self.stages[self._stage][1]
        begun = [-(-taken // len(tasks)) for taken, tasks in zip(self._next, before.parts, strict=True) if tasks]
        self._stage, self._first = number, self._first + max(begun)
        self._next, self._place = [0] * len(self.stages[number][1].parts), 0

    def _take(self, order: TaskOrder, part: int) -> tuple[Task, int]:
        """The next task of a part that is not passed over; after `rest` epochs each one is taken again."""
        while True:
            task, epoch = order.pick(part, self._next[part])
            self._next[part] += 1
            rate, then = self._measured.get(task.id, (None, 0))
            if rate is None or self.window.low <= rate <= self.window.high:
                return task, self._first + epoch
            if self._first + epoch - then > self.window.rest:
                return task, self._first + epoch

    def saw(self, task: Task, taken: int, group: Group) -> None:
        """Be told of a task's group of samples, whose rewards are looked at once they have been judged."""
        self._waiting.append((task.id, taken, group))

    def _settle(self) -> None:
        """Measure the groups that have been judged since; one without any reward tells nothing."""
        for name, taken, group in self._waiting:
            rewards = group.rewards[np.isfinite(group.rewards)]
            if len(rewards):
                self._measured[name] = (float(np.mean(rewards >= self.window.passing)), taken)
        self._waiting.clear()

    def state(self) -> dict[str, Any]:
        """How far each part has got, and what was measured of each task: rate, and when."""
        self._settle()
        measured = {name: list(found) for name, found in sorted(self._measured.items())}
        return {
            "stage": self._stage, "first": self._first, "place": self._place, "next": list(self._next),
            "measured": measured,
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self._waiting.clear()
        self._stage, self._first, self._place = (int(state[key]) for key in ("stage", "first", "place"))
        self._next = [int(taken) for taken in state["next"]]
        self._measured = {name: (float(rate), int(taken)) for name, (rate, taken) in state["measured"].items()}
