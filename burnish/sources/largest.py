"""What the largest steps of a source look like, told before it yields them: for the estimate of memory.

Prompts are the real ones. An answer that is still to be sampled stands as `max_tokens` tokens, the longest it can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from burnish.sources.context import Context
from burnish.sources.episodes import Episodes
from burnish.sources.order import MEASURING, Order
from burnish.sources.selection import Selected
from burnish.sources.source import Demonstrations, Source, demonstration_group
from burnish.tasks import Task
from burnish.tasks.rendering import prompt_of
from burnish.traces import Author, Group, Role, Span, Trace
from burnish.traces.templates import add_rendered

_CANDIDATES = 3
"""Steps that are rendered: the length of a text only tells roughly how many tokens it has."""
_SCANNED = 200_000
"""Places of the order that are looked up."""
_BATCHES = 4
"""Micro-batches that a step has at least, when it is cut short: a largest one will be among them."""


def largest_steps(source: Source, steps: int, *, budget: int, context_length: int | None) -> list[list[Group]]:
    """The groups of the largest of the first `steps` steps, without signals or verdicts.

    A step that fills several micro-batches of `budget` tokens is cut short; an answer ends where the context is full.
    Empty for a source of another kind.
    """
    if isinstance(source, Selected):
        source = source.inner  # it takes no more groups than that would
    if isinstance(source, Episodes):
        longest = source.stage.limits.longest(source.context.params.max_tokens)
        answered = _Answered(source.context, longest, source.spec.samples_per_prompt, context_length, _BATCHES * budget)
        return [_filled(tasks, answered, budget) for tasks in _largest(source.order, steps)]
    if isinstance(source, Demonstrations):
        form = source.format
        return [
            _filled(tasks, lambda task: demonstration_group(task, form, task.id), budget)
            for tasks in _largest(source.order, steps)
        ]
    return []


def _largest(order: Order, steps: int) -> list[list[Task]]:
    """The tasks of the steps with the most text, and of the one with the longest; of a long run, the longest of all.

    So also of an order that goes by what will be measured: it cannot be looked up before.
    """
    sizes = {id(task): len(task.text) + len(str(task.demonstration or "")) for task in order.tasks}
    if steps * order.per_step > _SCANNED or isinstance(order, MEASURING):
        longest = sorted(order.tasks, key=lambda task: -sizes[id(task)])
        return [(longest * (-(-order.per_step // len(longest))))[: order.per_step]]
    taken = [[task for task, _ in order.at(step)] for step in range(steps)]
    total = sorted(taken, key=lambda tasks: -sum(sizes[id(t)] for t in tasks))[:_CANDIDATES]
    return [*total, max(taken, key=lambda tasks: max(sizes[id(t)] for t in tasks))]


def _filled(tasks: Sequence[Task], make: Callable[[Task], Group], budget: int) -> list[Group]:
    """Groups of the tasks in order, until they fill several micro-batches."""
    groups: list[Group] = []
    tokens = 0
    for task in tasks:
        groups.append(make(task))
        tokens += sum(len(node) for trace in groups[-1].traces for node in trace.nodes)
        if tokens > _BATCHES * budget:
            break
    return groups


@dataclass(frozen=True)
class _Answered:
    """Makes groups of a prompt with answers of the greatest length, of `tokens` tokens and hardly more."""

    context: Context
    longest: int
    samples: int
    context_length: int | None
    tokens: int

    def __call__(self, task: Task) -> Group:
        rendered = prompt_of(self.context.format, task)
        longest = self.longest
        if self.context_length is not None:
            longest = max(1, min(longest, self.context_length - len(rendered.tokens)))
        trace = Trace(task.id)
        root = add_rendered(trace, -1, rendered)
        answer, author = np.zeros(longest, dtype=np.int64), Author.model(self.context.sampler.name, 0)
        leaves = [
            trace.add(root, answer, author, Role.ANSWER, np.zeros(longest))
            for _ in range(min(self.samples, 1 + -(-self.tokens // longest)))
        ]
        return Group(task.id, [Span(trace, leaf) for leaf in leaves])
