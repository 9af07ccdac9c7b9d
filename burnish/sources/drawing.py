"""Tasks one after the other, however many a step asks for: for sources that draw more prompts than a step trains on."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from burnish.sources.order import Order, StagedOrder, TaskOrder
from burnish.tasks import Task


@runtime_checkable
class Drawing(Protocol):
    """Knows how far it has got, so that a step may take any number of tasks, several times."""

    def take(self, step: int, count: int) -> list[tuple[Task, int]]:
        """The next tasks, each with a number that grows whenever that task is taken again; steps come in order."""
        ...


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

    @property
    def progress(self) -> list[int]:
        """How far it has got, for whoever draws from it to keep: the stage, the epochs before it, the place in it."""
        return [self._stage, self._first, self._place]

    @progress.setter
    def progress(self, progress: list[int]) -> None:
        self._stage, self._first, self._place = progress


def drawing(order: Order) -> Drawing:
    """What draws from an order: the order itself, where it keeps what it has given as its own state."""
    if isinstance(order, Drawing):
        return order
    assert isinstance(order, (TaskOrder, StagedOrder))  # the orders that remember nothing
    return Drawer(order)
