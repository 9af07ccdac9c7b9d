"""The loop. It is the same for every method; what differs is declared."""

from __future__ import annotations

import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from burnish.models.saving import save_model
from burnish.running.assemble import Parts
from burnish.running.directory import RunDirectory
from burnish.running.progress import Progress
from burnish.traces import Group

Evaluator = Callable[[int], Awaitable[dict[str, float]]]
"""Evaluates the policy after so many steps and returns numbers for that step's record."""


SILENT_STEPS = 5
"""Steps in a row without any spread of rewards after which a person is told."""


async def run_loop(
    parts: Parts, directory: RunDirectory, progress: Progress, evaluate: Evaluator | None = None
) -> None:
    """Every step: collect groups, judge, annotate, update, publish, record. Evaluations before, after, and between."""
    recipe = parts.recipe
    every = recipe.evaluation.every if recipe.evaluation else 0
    silent = 0
    if evaluate is not None:
        await evaluate(0)
    for step in range(recipe.steps):
        started = time.perf_counter()
        progress.phase("sampling" if parts.feedback else "reading", 0, recipe.prompts_per_step)
        groups = [group async for group in parts.source.groups(step)]
        if parts.feedback is not None:
            await parts.feedback.judge(groups, parts.text)
        collected = time.perf_counter()
        progress.phase("learning", 0, 1)
        metrics = _update(parts, step, groups)
        if parts.sampler is not None:
            parts.sampler.publish(parts.policy.version)
        record = {"step": step + 1, **metrics, **_measured(groups), **parts.meter.read()}
        record |= _timing(record, started, collected)
        last = step + 1 == recipe.steps
        if evaluate is not None and (last or (every and (step + 1) % every == 0)):
            record |= await evaluate(step + 1)
        parts.controller.observe(step, record)
        directory.append_metrics(record)
        progress.step(record)
        silent = silent + 1 if record.get("zero_variance_groups") == 1.0 else 0
        if silent == SILENT_STEPS:
            progress.message(
                f"in {SILENT_STEPS} steps no group had two different rewards, so nothing is learned: make the tasks "
                "easier or harder, the reward denser, or sample more of each prompt"
            )
        _store(parts, directory, step, groups)


def _update(parts: Parts, step: int, groups: list[Group]) -> dict[str, float]:
    """Run the step's phases over its groups; metrics of the last pass of each."""
    metrics: dict[str, float] = {}
    for spec in parts.controller.phases(step):
        phase = parts.phase(spec)
        for annotate in phase.annotators:
            annotate(groups)
        done = 0
        while parts.controller.again(spec, done, metrics):
            metrics |= parts.learner.update(groups, phase.terms)
            done += 1
    return metrics


def _measured(groups: list[Group]) -> dict[str, float]:
    """What the groups say before training: reward, spread, length, truncation, entropy estimate, missing rewards."""
    members = [m for g in groups for m in g.members]
    rewards = np.array([m.reward for m in members])
    if not any(m.verdict is not None for m in members):
        return {}
    nodes = [m.trace.nodes[m.leaf] for m in members]
    there = rewards[~np.isnan(rewards)]
    per_group = [g.rewards[~np.isnan(g.rewards)] for g in groups]
    names = dict.fromkeys(n for m in members if m.verdict for n in m.verdict.components)
    components = {
        f"reward/{n}": float(
            np.mean([m.verdict.components[n] for m in members if m.verdict and n in m.verdict.components])
        )
        for n in names
    }
    return {
        "reward": float(there.mean()) if len(there) else float("nan"),
        "reward_missing": float(np.isnan(rewards).sum()),
        "zero_variance_groups": float(np.mean([len(r) == 0 or np.ptp(r) == 0 for r in per_group])),
        "length": float(np.mean([len(n) for n in nodes])),
        "truncated": float(np.mean([n.meta.get("finish") != "stop" for n in nodes])),
        "sampled_nll": float(-np.concatenate([n.logprobs for n in nodes]).mean()),
        **components,
    }


def _timing(record: dict[str, Any], started: float, collected: float) -> dict[str, float]:
    """Seconds, tokens per second (sampled and trained tokens over the whole step), and the process's memory."""
    now = time.perf_counter()
    tokens = record.get("sampled_tokens", 0) + record.get("trained_tokens", 0.0)
    return {
        "timing/seconds": now - started,
        "timing/collect_seconds": collected - started,
        "timing/update_seconds": now - collected,
        "timing/tokens_per_second": tokens / max(now - started, 1e-9),
        "timing/rss_bytes": float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024),
    }


def _store(parts: Parts, directory: RunDirectory, step: int, groups: list[Group]) -> None:
    """Traces and checkpoints where the recipe asks for them."""
    recipe, last = parts.recipe, step + 1 == parts.recipe.steps
    if recipe.traces_every and (step % recipe.traces_every == 0 or last):
        directory.write_traces(step + 1, groups)
    if recipe.checkpoint_every and (step + 1) % recipe.checkpoint_every == 0 and not last:
        save_policy(parts, directory, f"checkpoints/step-{step + 1}")


def save_policy(parts: Parts, directory: RunDirectory, name: str) -> None:
    """The policy as a folder that transformers (or peft, for an adapter) loads, masters in full precision."""
    masters = parts.learner.masters
    state = {n: t.detach() for n, t in masters.parameters.items()} if masters.separate else None
    (directory.path / name).parent.mkdir(parents=True, exist_ok=True)
    save_model(parts.policy, directory.path / name, state=state)
