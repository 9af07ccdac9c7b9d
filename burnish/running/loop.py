"""The loop. It is the same for every method; what differs is declared."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from burnish.control.kept import kept
from burnish.errors import RunError
from burnish.models.saving import save_model
from burnish.running.assemble import Parts
from burnish.running.checkpoints import retire, write_checkpoint
from burnish.running.directory import RunDirectory
from burnish.running.interrupts import InterruptedRunError, Interrupts
from burnish.running.journal import Journal
from burnish.running.measure import measured, timing
from burnish.running.progress import Progress
from burnish.running.stateful import states
from burnish.running.traced import score_traces, traces_due
from burnish.sources.source import numbers_of
from burnish.sources.spec import RolloutsSpec
from burnish.traces import Group
from burnish.tracking.trackers import Trackers

Evaluator = Callable[[int], Awaitable[dict[str, float]]]
"""Evaluates the policy after so many steps and returns numbers for that step's record."""


@dataclass
class Run:
    """A run under way: its parts, where it writes, and how many steps are done."""

    parts: Parts
    directory: RunDirectory
    journal: Journal
    progress: Progress
    interrupts: Interrupts
    trackers: Trackers
    identity: Mapping[str, Any]
    """What every checkpoint notes about the run: its id and what its bits depend on."""
    evaluate: Evaluator | None = None
    step: int = 0


async def run_loop(run: Run) -> None:
    """Every step: collect groups, judge, annotate, update, publish, record, save. Evaluations before, after, between.

    Raises InterruptedRunError when asked to stop, and RunError when a guard ends the run; both after saving.
    """
    recipe = run.parts.recipe
    if run.evaluate is not None and run.step == 0 and not run.interrupts.requested:
        await run.evaluate(0)
    if run.interrupts.requested and run.step < recipe.steps:
        raise InterruptedRunError(f"stopped before step {run.step + 1} of {recipe.steps}; go on with --resume")
    while run.step < recipe.steps:
        record, groups = await _step(run)
        run.parts.controller.observe(run.step - 1, record)
        run.directory.append_metrics(record)
        run.trackers.log(run.step, record)
        run.parts.ledger.add("run", "seconds", record["timing/seconds"] + record["timing/evaluate_seconds"])
        run.progress.step(record)
        if traces_due(recipe, run.step):
            run.directory.write_traces(run.step, groups)
        findings = run.parts.guards.observe(record)
        for sentence in findings.tell:
            run.progress.message(sentence)
        _save_or_stop(run, record, findings.stop)


async def _step(run: Run) -> tuple[dict[str, Any], list[Group]]:
    """One step; its record and its groups."""
    parts, recipe, started = run.parts, run.parts.recipe, time.perf_counter()
    run.journal.step = run.step
    try:
        groups = await _collect(run)
    except RunError:
        run.journal.note("judging failed", step=run.step)  # a resume asks anew
        raise
    collected = time.perf_counter()
    if traces_due(recipe, run.step + 1):
        score_traces(parts, groups)
    metrics = _update(run, groups)
    parts.publish()
    run.step += 1
    record = {"step": run.step, **metrics, **measured(groups), **kept(groups), **numbers_of(parts.source)}
    updated = time.perf_counter()
    every = recipe.evaluation.every if recipe.evaluation else 0
    if run.evaluate is not None and (run.step == recipe.steps or (every and run.step % every == 0)):
        record |= await run.evaluate(run.step)
    record |= parts.ledger.read()
    return record | timing(record, started, collected, updated), groups


async def _collect(run: Run) -> list[Group]:
    """The step's groups, judged where the method has feedback."""
    parts, total = run.parts, run.parts.recipe.prompts_per_step
    phase = "sampling" if isinstance(parts.declaration.source, RolloutsSpec) else "reading"
    run.progress.phase(phase, 0, total)
    groups: list[Group] = []
    async for group in parts.source.groups(run.step):
        groups.append(group)
        run.progress.phase(phase, len(groups), total)
    if parts.feedback is not None:
        run.progress.phase("judging", 0, 1)
        # those that are judged while others are sampled have their verdicts already
        await parts.feedback.judge([g for g in groups if any(m.verdict is None for m in g.members)], parts.text)
        run.progress.phase("judging", 1, 1)
    return groups


def _update(run: Run, groups: list[Group]) -> dict[str, float]:
    """Run the step's phases over its groups; metrics of the last pass of each."""
    parts = run.parts
    metrics: dict[str, float] = {}
    for spec in parts.controller.phases(run.step):
        phase = parts.phase(spec)
        for annotate in phase.annotators:
            annotate(groups)
        done = 0
        while parts.controller.again(spec, done, metrics):
            learner = parts.learners[spec.learner]
            metrics |= learner.update(groups, phase.terms, lambda d, t: run.progress.phase("learning", d, t))
            done += 1
    return metrics


def _save_or_stop(run: Run, record: Mapping[str, Any], reason: str | None) -> None:
    """A checkpoint where one is due, or before the run ends early; then the end, if there is a reason for one."""
    recipe, last = run.parts.recipe, run.step == run.parts.recipe.steps
    early = not last and (reason is not None or run.interrupts.requested)
    due = recipe.checkpoint_every and (run.step % recipe.checkpoint_every == 0 or last)
    if due or early:
        save_checkpoint(run, record.get("held_out/accuracy"))
    if reason is not None:
        run.journal.note("stopped", step=run.step, reason=reason)
        raise RunError(reason)
    if early:
        run.journal.note("interrupted", step=run.step)
        raise InterruptedRunError(f"stopped after step {run.step} of {recipe.steps}, saved; go on with --resume")


def save_checkpoint(run: Run, score: float | None) -> None:
    """checkpoints/step-N with everything a resume needs; older ones than the recipe keeps go."""
    _check_finite(run.parts)
    folder = run.directory.path / "checkpoints"
    about = {"step": run.step, "score": score, **run.identity}
    run.directory.sync_metrics()
    write_checkpoint(
        folder / f"step-{run.step}", run.parts.learners, states(run.parts), about,
        lambda done, total: run.progress.phase("checkpoint", done, total),
    )  # fmt: skip
    run.journal.note("checkpoint", step=run.step)
    retire(folder, run.parts.recipe.keep_checkpoints)


def _check_finite(parts: Parts) -> None:
    """Raise RunError for weights that are not finite: a step too large leaves them so, and the next loss too late."""
    for name, learner in parts.learners.items():
        for parameter, values in learner.masters.parameters.items():
            if not bool(values.isfinite().all()):
                raise RunError(
                    f"{parameter} of {name} is not finite after the last step, so it is not saved; go back to the last "
                    "checkpoint with --resume and a lower optimizer.lr (--force)"
                )


def save_policy(parts: Parts, directory: RunDirectory, name: str) -> None:
    """The policy as a folder that transformers (or peft, for an adapter) loads, masters in full precision."""
    _check_finite(parts)
    masters = parts.learner.masters
    state = {n: t.detach() for n, t in masters.parameters.items()} if masters.separate else None
    with directory.writing(name) as path:
        save_model(parts.policy, path, state=state)
