"""Benchmarks of whole processes, from start to exit: a toy run, and the start of the command line. No torch here."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from burnish.errors import RunError
from burnish.studies.bench import jobs
from burnish.studies.bench.children import Ran, run_once
from burnish.studies.bench.jobs import Job
from burnish.studies.bench.results import BenchResult, result
from burnish.studies.bench.spec import Benchmark, Work

OUR_TOY_THREADS = 1
"""CPU threads of our toy run, as in the recipes of the nursery: a second one has nothing to do. The peer has the better
of one and two."""


class Settled(Protocol):
    """What these benchmarks need of a plan."""

    @property
    def runs(self) -> int:
        """Rounds that count."""
        ...

    @property
    def warm_up(self) -> int:
        """Rounds before them that do not."""
        ...

    @property
    def limit(self) -> float:
        """Seconds that a side may take for one of them."""
        ...

    @property
    def tell(self) -> Callable[[str], None]:
        """Where a line of progress goes."""
        ...


def toy_result(
    bench: Benchmark,
    folder: Path,
    work: Work,
    facts: Mapping[str, Any],
    peers: Sequence[Job],
    plan: Settled,
    about: Mapping[str, Any],
) -> BenchResult:
    """`burnish train` against the peer's script: seconds from start to exit, and steps a second without the start."""
    recipe = jobs.write_recipe(folder, work, facts, OUR_TOY_THREADS)
    rounds, steps, peaks = [], [], {}
    for number in range(-plan.warm_up, plan.runs):  # warming up fills the caches of the file system
        out = folder / f"run-{number + plan.warm_up}"
        command = ("-m", "burnish.cli", "train", str(recipe), "--out", str(out), "--json")
        ours = Job("ours", (sys.executable, *command), jobs.environment(OUR_TOY_THREADS, {"PYTHONPATH": jobs.ROOT}))
        sides = [ours, *peers]
        wall, rate = {}, {}
        for job in sides if number % 2 == 0 else list(reversed(sides)):
            ran = run_once(job, folder, plan.limit)
            wall[job.name] = ran.seconds
            rate[job.name] = _rate_of_events(ran, work) if job.name == "ours" else _told(ran)["steps_per_second"]
            peaks[job.name] = max(peaks.get(job.name, 0), ran.peak_memory)
            plan.tell(f"run {number + 1} of {plan.runs}: {job.name} {ran.seconds:.2f} s, {rate[job.name]:.1f} steps/s")
        if number >= 0:
            rounds.append(wall)
            steps.append(rate)
    ratios = {name: statistics.median(r["ours"] / r[name] for r in steps) for name in steps[0] if name != "ours"}
    seen = {
        "ours": statistics.median(r["ours"] for r in steps), "runs": steps,
        "ratio": min(ratios.values()) if ratios else None,
    }  # fmt: skip
    return result(bench, rounds, peaks=peaks, steps=seen, **about)


def _rate_of_events(ran: Ran, work: Work) -> float:
    """Steps a second between the first and the last step that `burnish train --json` told of."""
    times = [at for at, line in ran.lines if json.loads(line)["event"] == "step"]
    if len(times) != work.steps:
        raise RunError(f"the toy run told of {len(times)} steps, not of {work.steps}")
    return (len(times) - 1) / (times[-1] - times[0])


def _told(ran: Ran) -> dict[str, Any]:
    """What a side that runs once said of itself."""
    return next(found for _, line in ran.lines if (found := json.loads(line)).get("event") == "told")


_COMMAND = (sys.executable, "-m", "burnish.cli")
STARTS: dict[str, tuple[str, ...]] = {
    "python": (sys.executable, "-c", "pass"),
    "import": (sys.executable, "-c", "import burnish"),
    "help": (*_COMMAND, "--help"),
    "train-help": (*_COMMAND, "train", "--help"),
    "methods": (*_COMMAND, "methods"),
    "config": (*_COMMAND, "config", "recipe.yaml"),
    "completion": _COMMAND,
}
"""What starts, by name; the bare interpreter is part of all others."""

_COMPLETE = {
    "_BURNISH_COMPLETE": "complete_bash", "COMP_WORDS": "burnish train recipe.yaml optimizer.sch", "COMP_CWORD": "3",
}  # fmt: skip
_RECIPE = '{"method": "sft", "model": {"path": "nursery:S"}, "data": {"path": "rows.jsonl"}}'


COMPARED = ("python", "import", "help")
"""What the small version measures."""


def start_result(
    bench: Benchmark, folder: Path, work: Work, runs: int, limit: float, about: Mapping[str, Any]
) -> BenchResult:
    """Wall and processor seconds of fresh processes, in turns: `work.steps` rounds at least, since each is short."""
    (folder / "recipe.yaml").write_text(_RECIPE, "utf-8")
    commands = {name: STARTS[name] for name in (COMPARED if work == bench.small else STARTS)}
    found: dict[str, list[Ran]] = {name: [] for name in commands}
    for number in range(max(runs, work.steps) + 1):
        for name, command in commands.items():
            more = {"PYTHONPATH": jobs.ROOT} | (_COMPLETE if name == "completion" else {})
            ran = run_once(Job(name, command, jobs.environment(None, more)), folder, limit)
            if number:  # the first writes byte code
                found[name].append(ran)
    starts = {name: _start_figures(rans) for name, rans in found.items()}
    more = {
        "starts": starts,
        "over_python": {name: starts[name]["wall"] / starts["python"]["wall"] for name in ("import", "help")},
    }
    peaks = {"ours": max(ran.peak_memory for ran in found["import"])}
    return result(bench, [{"ours": ran.seconds} for ran in found["import"]], peaks=peaks, **more, **about)


def _start_figures(rans: Sequence[Ran]) -> dict[str, Any]:
    walls = [ran.seconds for ran in rans]
    processor = statistics.median(ran.processor_seconds for ran in rans)
    return {"wall": statistics.median(walls), "spread": [min(walls), max(walls)], "processor": processor}
