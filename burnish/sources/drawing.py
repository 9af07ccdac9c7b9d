"""Tasks one after the other, however many a step asks for: for sources that draw more prompts than a step trains on."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from burnish.sources.order import Order, StagedOrder, TaskOrder
from burnish.tasks import Task


@runtime_checkable
class Drawing(Protocol):
    """Remembers how far it has got, so that a step may take any number of tasks, several times."""

    def take(self, step: int, count: int) -> list[tuple[Task, int]]:
        """The next tasks, each with a number that grows whenever that task is taken again; steps come in order."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...


class Drawer:
    """Draws from an order that is a pure function of the step: the same tasks in the same sequence, without its steps.

    A stage of a curriculum begins at its step, at the first place of its own order.
    """

    def __init__(self, order: TaskOrder | StagedOrder) -> None:
        self.stages: list[tuple[int, TaskOrder]] = order.stages if isinstance(order, StagedOrder) else [(0, order)]
        self._stage, self._first, self._place = 0, 0, 0

    def take(self, step: int, count: int) -> list[tuple[Task, int]]:
        """The next tasks, each with a number that grows whenever that task is taken again; steps come in order."""
        number = max(n for n, (start, _) in enumerate(self.stages) if start <= step)
        if number != self._stage:
            self._first += self.stages[self._stage][1].begun(self._place)
            self._stage, self._place = number, 0
        order = self.stages[number][1]
        found = [order.pick(*order.shares.at(place)) for place in range(self._place, self._place + count)]
        self._place += count
        return [(task, self._first + epoch) for task, epoch in found]

    def state(self) -> dict[str, Any]:
        """How far it has got."""
        return {"stage": self._stage, "first": self._first, "place": self._place}

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self._stage, self._first, self._place = (int(state[key]) for key in ("stage", "first", "place"))


def drawing(order: Order) -> Drawing:
    """What draws from an order: the order itself, where it remembers what it has given."""
    if isinstance(order, Drawing):
        return order
    assert isinstance(order, (TaskOrder, StagedOrder))  # the orders that remember nothing
    return Drawer(order)
