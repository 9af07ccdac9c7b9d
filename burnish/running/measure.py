"""What a step's record says besides what the learner reports: rewards, lengths, speed, memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import psutil

from burnish.running.machine_memory import peak_memory
from burnish.signals.rewards import members_of
from burnish.traces import Group, Span, Status, Verdict


def measured(groups: list[Group]) -> dict[str, float]:
    """What the groups say before training: reward, spread, length, truncation, entropy estimate, missing rewards."""
    members = [m for g in groups for m in members_of(g)]
    rewards = np.array([m.reward for m in members])
    if not any(m.verdict is not None for m in members):
        return {}
    nodes = [m.trace.nodes[m.leaf] for m in members]
    said = [_sampled(m) for m in members]
    there = rewards[~np.isnan(rewards)]
    per_group = [g.rewards[~np.isnan(g.rewards)] for g in groups]
    names = dict.fromkeys(n for m in members if m.verdict for n in m.verdict.components)
    components = {
        f"reward/{n}": float(
            np.mean([m.verdict.components[n] for m in members if m.verdict and n in m.verdict.components])
        )
        for n in names
    }
    components |= _shaping(members)
    return {
        "reward": float(there.mean()) if len(there) else float("nan"),
        "reward_missing": float(np.isnan(rewards).sum()),
        "zero_variance_groups": float(np.mean([len(r) == 0 or np.ptp(r) == 0 for r in per_group])),
        "length": float(np.mean([len(logprobs) for logprobs in said])),
        "truncated": float(np.mean([n.meta.get("finish", "stop") != "stop" for n in nodes])),
        "sampled_nll": float(-np.concatenate(said).mean()),
        **components,
        **_attempts(members),
    }


def _shaping(members: list[Span]) -> dict[str, float]:
    """The mean of what each rule of shaping added to the actor's rewards."""
    added = [m.verdict.evidence.get("shaping", {}) for m in members if m.verdict is not None]
    names = dict.fromkeys(name for each in added for name in each)
    return {f"shaping/{n}": float(np.mean([each[n] for each in added if n in each])) for n in names}


def _sampled(member: Span) -> np.ndarray:
    """Log-probabilities of everything that a model sampled on a member's path, over all turns."""
    parts = [member.trace.nodes[n].logprobs for n in member.trace.path(member.leaf)]
    return np.concatenate([part[~np.isnan(part)] for part in parts])


def _attempts(members: list[Span]) -> dict[str, float]:
    """Of attempts of several turns: how many turns on average; and how often each status but ok and task_fail came."""
    verdicts = [m.verdict for m in members if m.verdict is not None]
    unusual = [v.status.value for v in verdicts if v.status not in (Status.OK, Status.TASK_FAIL)]
    counts = {f"status/{name}": float(unusual.count(name)) for name in sorted(set(unusual))}
    turns = [sum(bool((~np.isnan(m.trace.nodes[n].logprobs)).any()) for n in m.trace.path(m.leaf)) for m in members]
    counts |= _kinds(verdicts)
    return counts | ({"turns": float(np.mean(turns))} if max(turns) > 1 else {})


def _kinds(verdicts: list[Verdict]) -> dict[str, float]:
    """How often each component named what was wrong, as docs/verifiers.md lists it."""
    named = [
        f"verdicts/{component}/{kind}" for v in verdicts for component, kind in v.evidence.get("kinds", {}).items()
    ]
    return {name: float(named.count(name)) for name in sorted(set(named))}


def timing(record: dict[str, Any], started: float, collected: float, updated: float) -> dict[str, float]:
    """Seconds, tokens per second (sampled and trained tokens over collecting and updating), the process's memory."""
    tokens = record.get("sampled_tokens", 0) + record.get("trained_tokens", 0.0)
    return {
        "timing/seconds": updated - started,
        "timing/collect_seconds": collected - started,
        "timing/update_seconds": updated - collected,
        "timing/evaluate_seconds": time.perf_counter() - updated,
        "timing/tokens_per_second": tokens / max(updated - started, 1e-9),
        "timing/rss_bytes": float(psutil.Process().memory_info().rss),
        "timing/peak_rss_bytes": float(peak_memory()),
    }
