"""Sources: asynchronous generators of groups. Data sets and rollouts are both sources."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.sources.context import Context
from burnish.sources.episodes import Episodes, Stage
from burnish.sources.judged import unjudged
from burnish.sources.order import Order, TaskOrder, build_order
from burnish.sources.selection import Selected
from burnish.sources.spec import AnySelection, DemonstrationsSpec, RolloutsSpec, SourceSpec
from burnish.tasks import Task
from burnish.tasks.rendering import shown_after
from burnish.tasks.training import TrainingDataSpec
from burnish.traces import Group, Span, Trace
from burnish.traces.templates import Format, add_rendered

__all__ = ["Demonstrations", "Episodes", "Order", "Source", "TaskOrder", "build", "demonstration_group"]


class Source(Protocol):
    """Yields the groups of a step. Its state is checkpointed by name."""

    def groups(self, step: int) -> AsyncIterator[Group]:
        """The groups of step `step` (counted from 0), in an order that depends on the seed alone."""
        ...

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON values."""
        ...

    def load(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
        ...


class Demonstrations:
    """One group a demonstration, rendered by the model's own format; segments of one conversation are its members."""

    def __init__(
        self,
        spec: DemonstrationsSpec,
        tasks: Sequence[Task],
        format: Format,
        seed: int,
        ledger: Ledger | None = None,
        data: TrainingDataSpec | None = None,
    ) -> None:
        self.format, self.ledger = format, Ledger() if ledger is None else ledger
        without = [task.id for task in tasks if task.demonstration is None]
        if without:
            raise InputError(f"{len(without)} tasks have no demonstration to imitate, the first is {without[0]}")
        if data is not None and data.priority is not None:
            raise InputError("data.priority: demonstrations are not sampled, so no success rate is measured: remove it")
        if data is not None and data.window is not None and data.window.measured:
            raise InputError(
                "data.window: demonstrations are not sampled, so no pass rate is measured: name a column with recorded "
                "ones (data.window.column), or remove it"
            )
        self.order = build_order(tasks, spec.prompts_per_step, seed, data)

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


def numbers_of(source: Source) -> dict[str, float]:
    """What a source has to say about the last step, for its record; most have nothing."""
    return source.numbers() if isinstance(source, Selected) else {}


def demonstration_group(task: Task, format: Format, key: str) -> Group:
    """A task's demonstration as a group: one member for each separately rendered segment."""
    members = []
    for index, rendered in enumerate(shown_after(format, task, task.demonstration or ())):
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
    data: TrainingDataSpec | None = None,
    stage: Stage | None = None,
    selection: AnySelection | None = None,
) -> Source:
    """The source a spec declares, over tasks that `data` mixes, windows and stages.

    Attempts are made on `stage`; without one they are single answers that somebody else judges. With `selection` more
    of them are made than a step trains on.

    Raises InputError when it needs a sampler and there is none, and when there are no tasks for a step.
    """
    if isinstance(spec, RolloutsSpec):
        if context is None:
            raise InputError("rollouts need a sampler")
        episodes = Episodes(spec, tasks, stage or unjudged(context), data)
        return episodes if selection is None else Selected(episodes, selection)
    if isinstance(spec, DemonstrationsSpec):
        return Demonstrations(spec, tasks, format, seed, ledger, data)
    raise InputError(f"no source is registered for {type(spec).__name__}")
