"""Run directories as a run writes them, clean or with one planted fault, for the tests of the audits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from burnish.running.directory import RunDirectory
from burnish.traces import CONTEXT, ENVIRONMENT, Author, Group, Role, SignalKind, Span, Status, Trace, Verdict

STEPS, GROUPS, MEMBERS = 4, 8, 5
CONFIG = "method: grpo\nseed: 0\nsteps: 4\nmodel: {path: base}\n"


@dataclass
class Drawn:
    """One sample: its answer's tokens, what it is worth, and what the learner did with it."""

    tokens: list[int]
    reward: float | None = 1.0
    components: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)
    advantage: float | None = 0.5
    masked: bool = False
    finish: str = "stop"
    gap: float | np.ndarray | None = None
    """Sampler minus learner; None: the learner's log-probabilities are not stored."""


Shape = Callable[[np.random.Generator, int, int], Drawn]
"""From a generator, the step and the task's number to a sample."""


def plain(random: np.random.Generator, step: int, task: int) -> Drawn:
    """A clean sample: right half of the time, of a length that says nothing; wrong answers differ."""
    right = bool(random.integers(2))
    answer = [100 + task, 7] if right else [100 + task, int(random.integers(8, 40))]
    return Drawn([*answer, *[1] * int(random.integers(3, 9))], float(right), gap=float(random.normal(0, 1e-4)))


def write_run(
    path: Path,
    shape: Shape = plain,
    *,
    steps: int = STEPS,
    groups: int = GROUPS,
    seed: int = 0,
    metrics: Mapping[str, float] | None = None,
) -> Path:
    """A run directory with a step's traces each; `metrics` are in every step's record."""
    random = np.random.default_rng(seed)
    directory, _ = RunDirectory.claim(path)
    directory.write_config(CONFIG)
    for step in range(1, steps + 1):
        if groups:
            tasks = range((step - 1) * groups, step * groups)
            directory.write_traces(step, [group(random, shape, step, task) for task in tasks])
        directory.append_metrics({"step": step, "reward": 0.5, "sampler_gap": 1e-4, **(metrics or {})})
    directory.close()
    return path


def group(random: np.random.Generator, shape: Shape, step: int, task: int) -> Group:
    """One group, all of its members in one trace, as rollouts write them."""
    trace = Trace(f"t{task}/0", {"task": f"t{task}"})
    root = trace.add(-1, [50, task % 40], CONTEXT, Role.PROMPT)
    members = [_member(random, trace, root, shape(random, step, task), step) for _ in range(MEMBERS)]
    return Group(trace.id, members)


def _member(random: np.random.Generator, trace: Trace, root: int, drawn: Drawn, step: int) -> Span:
    size = len(drawn.tokens)
    logprobs = -random.exponential(0.5, size).astype(np.float32)
    meta = {"finish": drawn.finish, "temperature": 1.0}
    leaf = trace.add(root, drawn.tokens, Author.model("policy", step - 1), Role.ANSWER, logprobs, meta=meta)
    if drawn.advantage is not None:
        trace.write(leaf, "advantage", np.full(size, drawn.advantage), SignalKind.POLICY, learner="policy")
    if drawn.gap is not None:
        trace.write(leaf, "old_logprob", logprobs - drawn.gap)
    if drawn.reward is None:
        verdict = Verdict.missing(Status.VERIFIER_ERROR, "the verifier fell over")
    else:
        verdict = Verdict(drawn.reward, components=drawn.components, evidence=drawn.evidence)
    return Span(trace, leaf, verdict=verdict, masked=drawn.masked)


def observed(group: Group) -> int:
    """Add an observation of the environment after the first member; its node."""
    trace = group.traces[0]
    return trace.add(group.members[0].leaf, [60, 61], ENVIRONMENT, Role.OBSERVATION)


def write_weights(folder: Path, tensors: dict[str, np.ndarray]) -> Path:
    """A model folder as far as its weights go."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text("{}")
    return folder


def matrices(seed: int = 0, scale: float = 1.0) -> dict[str, np.ndarray]:
    """Weights of six small layers and an embedding."""
    random = np.random.default_rng(seed)
    found = {f"layers.{i}.proj.weight": scale * random.normal(size=(24, 32)) for i in range(6)}
    found["embed.weight"] = scale * random.normal(size=(40, 32))
    found["norm.weight"] = scale * random.normal(size=32)
    return {name: values.astype(np.float32) for name, values in found.items()}
