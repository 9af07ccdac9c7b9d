"""Sources: asynchronous generators of groups. Data sets and rollouts are both sources."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.randomness import counter_generator, stable_hash
from burnish.sources.context import Context
from burnish.sources.spec import DemonstrationsSpec, RolloutsSpec, SourceSpec
from burnish.tasks import Task
from burnish.traces import Group, Span, Trace
from burnish.traces.templates import Format, add_rendered


class Source(Protocol):
    """Yields the groups of a step. Its state is checkpointed by name."""

    def groups(self, step: int) -> AsyncIterator[Group]:
        """The groups of step `step` (counted from 0), in an order that depends on the seed alone."""
        ...

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...


class TaskOrder:
    """Which tasks a step takes: a seeded permutation per epoch, a pure function of the step. Nothing to remember."""

    def __init__(self, tasks: Sequence[Task], per_step: int, seed: int) -> None:
        if not tasks:
            raise InputError("there is nothing to train on: the list of tasks is empty")
        self.tasks, self.per_step, self.seed = list(tasks), per_step, seed
        self._epoch, self._order = -1, list(range(len(self.tasks)))

    def at(self, step: int) -> list[tuple[Task, int]]:
        """The step's tasks, each with the number of times it was taken before."""
        first = step * self.per_step
        return [self._place(i) for i in range(first, first + self.per_step)]

    def _place(self, index: int) -> tuple[Task, int]:
        epoch, place = divmod(index, len(self.tasks))
        if epoch != self._epoch:
            generator = counter_generator(self.seed, stable_hash("task order"), epoch)
            self._epoch, self._order = epoch, generator.permutation(len(self.tasks)).tolist()
        return self.tasks[self._order[place]], epoch


class Rollouts:
    """Groups of samples of the policy: all of a step's prompts in flight at once, yielded in task order."""

    def __init__(self, spec: RolloutsSpec, tasks: Sequence[Task], context: Context) -> None:
        self.spec, self.context = spec, context
        self.order = TaskOrder(tasks, spec.prompts_per_step, context.seed)

    async def groups(self, step: int) -> AsyncIterator[Group]:
        """Sample each of the step's tasks."""
        n = self.spec.samples_per_prompt
        running = [
            asyncio.ensure_future(self.context.sample(task, n, first=taken * n)) for task, taken in self.order.at(step)
        ]
        try:
            for group in running:
                yield await group
        finally:
            for group in running:
                group.cancel()  # when one has raised, or the taker has gone, the others have no taker

    def state(self) -> dict[str, Any]:
        """No state: the order is a function of the step."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """No state."""


class Demonstrations:
    """One group a demonstration, rendered by the model's own format; segments of one conversation are its members."""

    def __init__(
        self, spec: DemonstrationsSpec, tasks: Sequence[Task], format: Format, seed: int, ledger: Ledger | None = None
    ) -> None:
        self.format, self.ledger = format, Ledger() if ledger is None else ledger
        without = [task.id for task in tasks if task.demonstration is None]
        if without:
            raise InputError(f"{len(without)} tasks have no demonstration to imitate, the first is {without[0]}")
        self.order = TaskOrder(tasks, spec.prompts_per_step, seed)

    async def groups(self, step: int) -> AsyncIterator[Group]:
        """Render each of the step's demonstrations."""
        for task, taken in self.order.at(step):
            self.ledger.add("policy", "prompts")
            yield demonstration_group(task, self.format, f"{task.id}/{taken}")

    def state(self) -> dict[str, Any]:
        """No state: the order is a function of the step."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """No state."""


def demonstration_group(task: Task, format: Format, key: str) -> Group:
    """A task's demonstration as a group: one member for each separately rendered segment."""
    if isinstance(task.demonstration, str):
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": task.prompt}, {"role": "assistant", "content": task.demonstration}
        ]  # fmt: skip
    else:
        messages = [*(task.messages or ()), *(task.demonstration or ())]
    members = []
    for index, rendered in enumerate(format.demonstration(messages)):
        trace = Trace(f"{key}/{index}", {"task": task.id, "domain": task.domain})
        members.append(Span(trace, add_rendered(trace, -1, rendered)))
    return Group(key, members, columns=dict(task.columns))


def build(
    spec: SourceSpec,
    tasks: Sequence[Task],
    *,
    context: Context | None,
    format: Format,
    seed: int,
    ledger: Ledger | None = None,
) -> Source:
    """The source a spec declares. Raises InputError when it needs a sampler and there is none."""
    if isinstance(spec, RolloutsSpec):
        if context is None:
            raise InputError("rollouts need a sampler")
        return Rollouts(spec, tasks, context)
    if isinstance(spec, DemonstrationsSpec):
        return Demonstrations(spec, tasks, format, seed, ledger)
    raise InputError(f"no source is registered for {type(spec).__name__}")
