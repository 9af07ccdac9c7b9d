"""Does verification overlap generation? The same answers judged while others are sampled, and judged afterwards.

    python -m benchmarks.overlap [--repeats 5] [--write FILE]

A nursery model samples sums on one thread; a program with tests per answer runs in the sandbox, or math-verify in its
pool of one worker, so that two cores can serve both. `apart` is the time to sample everything plus the time to judge it
then, `together` that of the source which judges each group as soon as it is there. hidden = (apart - together) /
min(sampling, judging): 1 when the shorter of the two costs nothing. Same seed, same answers (compared), alternating.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from burnish.running.assemble import Parts, assemble
from burnish.running.config import recipe_from_mapping
from burnish.sources.episodes import Episodes
from burnish.sources.judged import unjudged as unjudged_stage
from burnish.sources.order import TaskOrder
from burnish.sources.source import Source
from burnish.traces import Group
from burnish.traces.files import atomic_write

REWARDS: dict[str, dict[str, Any]] = {
    "math": {"rewards": [{"kind": "math"}], "workers": 1},
    "function": {"rewards": [{"kind": "function", "function": "benchmarks.overlap:slow"}]},
}


async def slow(completions: list[str], **columns: Any) -> list[float]:
    """A judge somewhere else, such as a model behind a network: 200 ms for each prompt's answers."""
    await asyncio.sleep(0.2)
    return [float(len(text)) for text in completions]


def recipe_of(rewards: dict[str, Any]) -> dict[str, Any]:
    """One step of 96 prompts with 8 answers of up to 24 tokens."""
    return {
        "method": "grpo", "steps": 1, "prompts_per_step": 96, "samples_per_prompt": 8, "threads": 1, "engine_rows": 64,
        "model": {"path": "nursery:arithmetic-S", "dtype": "float32"}, "rewards": rewards,
        "data": {"family": {"kind": "arithmetic", "count": 96, "question": "{a}{op}{b}="}},
        "sampling": {"max_tokens": 24, "temperature": 3.0},
    }  # fmt: skip


def collected(source: Source) -> tuple[list[Group], float]:
    """The groups of the first step, and the seconds they took."""

    async def collect() -> list[Group]:
        return [group async for group in source.groups(0)]

    started = time.perf_counter()
    groups = asyncio.run(collect())
    return groups, time.perf_counter() - started


def once(parts: Parts, unjudged: Source) -> dict[str, float]:
    """Seconds of sampling, of judging, and of both together. Raises RuntimeError where the verdicts differ."""
    assert parts.feedback is not None  # the recipe has rewards
    groups, sampling = collected(unjudged)
    started = time.perf_counter()
    asyncio.run(parts.feedback.judge(groups, parts.text))
    judging = time.perf_counter() - started
    overlapped, together = collected(parts.source)
    values = [[[member.reward for member in group.members] for group in these] for these in (groups, overlapped)]
    if values[0] != values[1]:
        raise RuntimeError("the answers judged meanwhile have other rewards than those judged afterwards")
    hidden = (sampling + judging - together) / min(sampling, judging)
    return {"sampling": sampling, "judging": judging, "together": together, "hidden": hidden}


def measure(name: str, repeats: int) -> dict[str, Any]:
    """Medians and spread over repeats, after one that warms up."""
    parts = assemble(recipe_from_mapping(recipe_of(REWARDS[name])))
    assert isinstance(parts.source, Episodes) and isinstance(parts.source.order, TaskOrder)
    unjudged = Episodes(parts.source.spec, parts.source.order.tasks, unjudged_stage(parts.source.context))
    try:
        once(parts, unjudged)
        runs = [once(parts, unjudged) for _ in range(repeats)]
    finally:
        parts.close()
    return {
        key: {"median": round(statistics.median(values), 3), "range": [round(min(values), 3), round(max(values), 3)]}
        for key in runs[0]
        for values in [[run[key] for run in runs]]
    }


def main() -> None:
    """Measure each judge, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    found = {
        "command": "python -m benchmarks.overlap", "python": sys.version.split()[0], "cores": os.cpu_count(),
        "load_average_of_the_machine": round(os.getloadavg()[0], 1),
        **{name: measure(name, arguments.repeats) for name in REWARDS},
    }  # fmt: skip
    print(json.dumps(found, indent=1))
    if arguments.write:
        atomic_write(arguments.write, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
