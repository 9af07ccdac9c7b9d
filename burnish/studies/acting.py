"""Evaluation by attempts in an environment: the same items, intervals and files as any other evaluation."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from burnish.errors import InputError
from burnish.sources.episodes import Stage, attempts
from burnish.studies.evaluation import Evaluation, Item, labels_of, surprisal
from burnish.tasks import Task
from burnish.traces import Span


async def evaluate_attempts(
    stage: Stage,
    tasks: Sequence[Task],
    *,
    name: str = "evaluation",
    samples_per_task: int = 1,
    concurrency: int = 64,
    notes: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Attempt every task, `concurrency` tasks at a time, with the sampling parameters of the stage's context.

    An item is correct when it is worth 1; where a verdict keeps what an attempt deserves apart from what was paid
    (component `true`), that counts. It is well-formed when each tool call in it could be made. What the machinery
    spoilt is missing. `notes["components"]` has the means of the verdicts' components. Raises InputError when there is
    nothing to evaluate, or greedy samples would all be alike.
    """
    context = stage.setting.context
    if not tasks:
        raise InputError("nothing to evaluate: the list of tasks is empty")
    if samples_per_task > 1 and context.params.greedy:
        raise InputError(f"{samples_per_task} greedy samples of a task are all alike; set a temperature or sample once")
    slots, done = asyncio.Semaphore(concurrency), 0

    async def one(task: Task) -> list[Span]:
        nonlocal done
        async with slots:
            group = await attempts(stage, task, samples_per_task)
        done += 1
        if progress:
            progress(done, len(tasks))
        return group.members

    running = [asyncio.ensure_future(one(task)) for task in tasks]
    try:
        found = await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()  # one has raised: the others have no taker
    items = [
        _item(stage, task, i, span) for task, spans in zip(tasks, found, strict=True) for i, span in enumerate(spans)
    ]
    return Evaluation(
        name=name, model=context.sampler.name, version=context.sampler.version,
        params={**dataclasses.asdict(context.params), "stop_ids": sorted(context.params.stop_ids)},
        seed=context.seed, items=tuple(items), notes={**(notes or {}), "components": components(found)},
    )  # fmt: skip


def components(members: Sequence[Sequence[Span]]) -> dict[str, float]:
    """The mean of each component over the verdicts that have it."""
    verdicts = [span.verdict for spans in members for span in spans if span.verdict is not None]
    names = dict.fromkeys(name for verdict in verdicts for name in verdict.components)
    return {n: float(np.mean([v.components[n] for v in verdicts if n in v.components])) for n in names}


def _item(stage: Stage, task: Task, sample: int, span: Span) -> Item:
    verdict, path = span.verdict, span.trace.path(span.leaf)
    model = stage.setting.context.sampler.name
    mine = {n: span.trace.sampled_by(n, model) for n in path}
    own = [span.trace.nodes[n].tokens[which].tolist() for n, which in mine.items()]
    said = [stage.setting.decode(span.trace.nodes[n].tokens.tolist()).strip() for n in path[1:]]
    tokens = tuple(token for of_node in own for token in of_node)
    judged = verdict is not None and verdict.reward is not None
    worth = verdict.components.get("true", verdict.reward) if verdict is not None and judged else None
    return Item(
        task=task.id, sample=sample, prompt=task.text, text="\n".join(said), tokens=tokens, length=len(tokens),
        finish=str(span.trace.nodes[span.leaf].meta.get("finish", "cancelled")), expected=task.answer,
        correct=None if worth is None else worth >= 1.0,
        well_formed=None if verdict is None or not judged else "wrong_calls" not in verdict.evidence,
        reward=verdict.reward if verdict is not None else None,
        surprisal=surprisal([span.trace.nodes[n].logprobs[which] for n, which in mine.items()]), labels=labels_of(task),
    )  # fmt: skip
