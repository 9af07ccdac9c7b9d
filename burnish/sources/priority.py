"""Tasks that the policy fails at are drawn more often: the chance of a task is proportional to 1 - its success rate.

Prioritised sampling of Kimi k1.5 (arXiv 2501.12599, section 2.3), with rates that the run itself measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burnish.randomness import counter_generator, stable_hash
from burnish.tasks import Task
from burnish.tasks.training import PrioritySpec
from burnish.traces import Group

if TYPE_CHECKING:
    from burnish.sources.order import TaskOrder

_STREAM = stable_hash("task priority")


class PriorityOrder:
    """Draws tasks without replacement within a step, task i with a chance proportional to max(floor, 1 - s_i).

    s_i is a running mean over the times that task i was taken, of the share of its judged samples that passed; a task
    that was not measured yet counts as one that always fails. Parts of a mix keep their shares. What is drawn depends
    on what was measured, so this order has a state; steps are asked for one after the other.
    """

    def __init__(self, stages: Sequence[tuple[int, TaskOrder]], priority: PrioritySpec, seed: int) -> None:
        self.stages, self.priority, self.seed = list(stages), priority, seed
        self.per_step = self.stages[0][1].per_step
        self.tasks = list({id(task): task for _, order in self.stages for task in order.tasks}.values())
        self._stage, self._place, self._draws = 0, 0, 0
        self._rates: dict[str, float] = {}
        self._taken: dict[str, int] = {}
        self._waiting: list[tuple[str, Group]] = []

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The tasks of the next step, each with the number of times it was taken before."""
        return self.take(step, self.per_step)

    def take(self, step: int, count: int) -> list[tuple[Task, int]]:
        """As many tasks as are asked for, none of them twice unless there are fewer."""
        self._settle()
        number = max(n for n, (start, _) in enumerate(self.stages) if start <= step)
        if number != self._stage:
            self._stage, self._place = number, 0
        order = self.stages[number][1]
        parts = [order.shares.at(place)[0] for place in range(self._place, self._place + count)]
        self._place += count
        queues = {part: iter(self._drawn(order.parts[part], parts.count(part), part)) for part in set(parts)}
        self._draws += 1
        return [(task, self._count(task)) for task in (next(queues[part]) for part in parts)]

    def _drawn(self, tasks: Sequence[Task], count: int, part: int) -> list[Task]:
        """Tasks of a part: the largest of log(weight) + Gumbel noise are a weighted draw without replacement."""
        weights = np.array([max(self.priority.floor, 1 - self._rates.get(task.id, 0.0)) for task in tasks])
        generator = counter_generator(self.seed, _STREAM, self._draws, part)
        found: list[Task] = []
        while len(found) < count:
            order = np.argsort(-(np.log(weights) + generator.gumbel(size=len(tasks))), kind="stable")
            found += [tasks[i] for i in order[: count - len(found)]]
        return found

    def _count(self, task: Task) -> int:
        before = self._taken.get(task.id, 0)
        self._taken[task.id] = before + 1
        return before

    def saw(self, task: Task, taken: int, group: Group) -> None:
        """Be told of a task's group of samples, whose rewards are looked at once they have been judged."""
        self._waiting.append((task.id, group))

    def _settle(self) -> None:
        """Measure the groups that have been judged since; one without any reward tells nothing."""
        for name, group in self._waiting:
            rewards = group.rewards[np.isfinite(group.rewards)]
            if len(rewards):
                now = float(np.mean(rewards >= self.priority.passing))
                kept = self.priority.memory if name in self._rates else 0.0
                self._rates[name] = kept * self._rates.get(name, 0.0) + (1 - kept) * now
        self._waiting.clear()

    def state(self) -> dict[str, Any]:
        """How far it has got, how often each task was taken, and what was measured of it."""
        self._settle()
        return {
            "stage": self._stage, "place": self._place, "draws": self._draws,
            "taken": dict(sorted(self._taken.items())), "rates": dict(sorted(self._rates.items())),
        }  # fmt: skip

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self._waiting.clear()
        self._stage, self._place, self._draws = (int(state[key]) for key in ("stage", "place", "draws"))
        self._taken = {name: int(count) for name, count in state["taken"].items()}
        self._rates = {name: float(rate) for name, rate in state["rates"].items()}
