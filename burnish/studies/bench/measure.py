"""Measuring: ours and the peers in turns, the floor in the same run. No torch here: every side is a child process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.studies.bench import jobs
from burnish.studies.bench.children import ROUND_LIMIT, Child, started
from burnish.studies.bench.floor import seconds as floor_seconds
from burnish.studies.bench.machine import machine, versions
from burnish.studies.bench.results import FOLDER, BenchResult, result
from burnish.studies.bench.search import best_settings, cores
from burnish.studies.bench.spec import Benchmark, Settings, Work, benchmark
from burnish.studies.bench.whole import start_result, toy_result

Tell = Callable[[str], None]
Figures = dict[str, Any]
"""What a side reported of one round."""


@dataclass(frozen=True)
class Plan:
    """How a piece of work is measured."""

    work: Work
    threads: int
    runs: int
    warm_up: int
    settings: Mapping[str, Settings]
    """Of each peer that is measured."""
    absent: Mapping[str, str]
    """Peers that are not, with the reason."""
    python: Mapping[str, str | None]
    """The interpreter of each peer, where it is not this one."""
    limit: float
    """Seconds that a side may take for its work done once."""
    tell: Tell

    def about(self) -> dict[str, Any]:
        """What a result says of how it came about."""
        return {
            "work": str(self.work), "warm_up": self.warm_up, "threads": self.threads, "settings": dict(self.settings),
            "absent": dict(self.absent), "machine": machine(), "versions": versions(self.python.get("vllm")),
        }  # fmt: skip


class SomeFailedError(RunError):
    """Some benchmarks failed; `results` are those of the others."""

    def __init__(self, text: str, results: Sequence[BenchResult]) -> None:
        super().__init__(text)
        self.results = list(results)


def bench(
    *names: str,
    runs: int = 3,
    warm_up: int = 1,
    threads: int | None = None,
    small: bool = False,
    prompts: int | None = None,
    vllm_python: str | None = None,
    results: str | Path = FOLDER,
    limit: float = ROUND_LIMIT,
    each: Callable[[BenchResult], None] = lambda result: None,
    tell: Tell = lambda line: None,
) -> list[BenchResult]:
    """Run benchmarks by name, in turns with their peers; one result each.

    Benchmarks with the same work (grpo-short and memory) are measured once. `runs` rounds are measured, after `warm_up`
    that are not; `threads` is the CPU threads of every side, by default as many as there are cores on ours, and what
    the search found best on a peer's. `small` takes the small versions, `prompts` another number of prompts than the
    benchmark's own. `vllm_python` is the interpreter of an environment with vLLM, by default $BURNISH_VLLM_PYTHON;
    where there is none, the result says so. The peers' settings are the best of the search in `results`, where there
    is one. A side that takes more than `limit` seconds for its work done once is ended, and has failed. `each` is given
    every result as soon as it is measured, `tell` a line for each round.

    Raises InputError for an unknown name, RunError where a side fails; where several benchmarks are named the others
    are measured all the same, and the error is a SomeFailedError with their results.
    """
    if not names:
        raise InputError("no benchmark is named; `burnish bench list` shows them")
    if runs < 1 or warm_up < 0 or limit <= 0:
        raise InputError(
            f"runs must be at least 1, warm_up at least 0 and limit above 0, not {runs}, {warm_up} and {limit:g}"
        )
    chosen = [benchmark(name) for name in dict.fromkeys(names)]
    python = jobs.vllm_python(vllm_python)
    settled = {one.name: _peers(one, threads, small, python, Path(results)) for one in chosen}
    done: dict[str, BenchResult] = {}
    failed: dict[str, RunError] = {}
    for one in chosen:
        if one.name in done or one.name in failed:
            continue
        work = one.of_size(small)
        alike = [b for b in chosen if b.of_size(small) == work and b.peers == one.peers]
        if prompts is not None:
            work = replace(work, prompts=prompts)
        settings, absent = settled[one.name]
        plan = Plan(work, threads or cores(), runs, warm_up, settings, absent, {"vllm": python}, limit=limit, tell=tell)
        try:
            measured = _measured(alike, plan)
        except RunError as error:
            if len(alike) == len(chosen):
                raise  # there is nothing else
            failed |= dict.fromkeys((b.name for b in alike), error)
            tell(f"{', '.join(b.name for b in alike)}: failed, {error}")
            continue
        done |= measured
        for b in alike:
            each(done[b.name])
    if failed:
        told = "\n".join(f"{name}: {error}" for name, error in failed.items())
        raise SomeFailedError(f"{len(failed)} of {len(chosen)} benchmarks failed:\n{told}", list(done.values()))
    return [done[b.name] for b in chosen]


def _peers(
    bench: Benchmark, threads: int | None, small: bool, python: str | None, results: Path
) -> tuple[dict[str, Settings], dict[str, str]]:
    """The settings of each peer that can be measured, and why the others cannot."""
    settings = {name: best_settings(results, bench, name, threads, small=small) for name in bench.peers}
    absent = {}
    if "vllm" in settings and python is None:
        del settings["vllm"]
        absent["vllm"] = f"no interpreter with vLLM was named (--vllm-python, or {jobs.VLLM_PYTHON})"
    return settings, absent


def _measured(benches: Sequence[Benchmark], plan: Plan) -> dict[str, BenchResult]:
    """Results of benchmarks with the same work."""
    with tempfile.TemporaryDirectory(prefix="burnish-bench-") as name:
        folder = Path(name)
        facts = jobs.prepare(folder, plan.work)
        sides = [
            jobs.peer(peer, folder, plan.work, facts, settings, plan.python.get(peer))
            for peer, settings in plan.settings.items()
        ]
        about = plan.about()
        if plan.work.kind == "start":
            return {b.name: start_result(b, folder, plan.work, plan.runs, plan.limit, about) for b in benches}
        if plan.work.kind == "toy":
            return {b.name: toy_result(b, folder, plan.work, facts, sides, plan, about) for b in benches}
        sides = [jobs.ours(folder, plan.work, facts, plan.threads), *sides]
        floor = [jobs.products(folder, plan.work, facts, plan.threads)]
        with started([*floor, *sides], folder) as children:
            rounds, rates = _rounds(children, plan, facts)
            counted = children["floor"].about
    lowest = floor_seconds(counted["phases"], rates)
    return {b.name: _result(b, plan, facts, rounds, lowest, counted["parameter_bytes"], about) for b in benches}


def _rounds(
    children: Mapping[str, Child], plan: Plan, facts: Mapping[str, Any]
) -> tuple[list[dict[str, Figures]], list[list[float]]]:
    """Each round's figures of every side, and the rates of matrix products measured in each."""
    names = [name for name in children if name != "floor"]
    for _ in range(plan.warm_up):
        for name in names:
            plan.tell(f"{name}: warmed up, {children[name].go(plan.limit)['seconds']:.2f} s")
    rounds, rates = [], []
    for number in range(plan.runs):
        rates.append(children["floor"].go(plan.limit)["rates"])
        found = {}
        for name in names if number % 2 == 0 else reversed(names):  # what drifts shall not fall on one side alone
            found[name] = children[name].go(plan.limit)
            check_work(name, plan.work, facts, found[name])
            plan.tell(f"round {number + 1} of {plan.runs}: {name} {found[name]['seconds']:.2f} s")
        rounds.append(found)
    return rounds, rates


def _result(
    bench: Benchmark,
    plan: Plan,
    facts: Mapping[str, Any],
    rounds: Sequence[Mapping[str, Figures]],
    floor: Mapping[str, Any],
    parameter_bytes: int,
    about: Mapping[str, Any],
) -> BenchResult:
    """The result of one benchmark from the rounds of its work."""
    held = 4 * parameter_bytes  # weights, gradients and the two moments of Adam, all in one precision
    values = [
        {name: _value(bench, plan.work, facts, figures, held) for name, figures in of_round.items()}
        for of_round in rounds
    ]
    peaks = {name: max(of_round[name]["peak_memory"] for of_round in rounds) for name in rounds[0]}
    seconds = sorted(of_round["ours"]["seconds"] for of_round in rounds)
    more: dict[str, Any] = {"figures": [dict(of_round) for of_round in rounds], **about}
    if bench.measure == "bytes":
        more["held_bytes"] = held
    return result(
        bench, values, peaks=peaks, floor=floor if bench.floor else None, seconds=seconds[len(seconds) // 2], **more
    )


def _value(bench: Benchmark, work: Work, facts: Mapping[str, Any], figures: Figures, held: int) -> float:
    """A side's value in one round."""
    if bench.measure == "bytes":
        return figures["peak_memory"] - held
    if bench.measure == "seconds":
        return figures["seconds"]
    return amount(work, facts) / figures["seconds"]


def check_work(name: str, work: Work, facts: Mapping[str, Any], figures: Figures) -> None:
    """Raise RunError where a side has not done the work that it was asked for: a ratio would mean nothing."""
    asked: dict[str, int] = {"tokens": amount(work, facts)} if work.kind in ("engine", "learner") else {}
    if work.kind == "grpo":
        asked["length"] = work.new_tokens
    if work.kind == "sft":
        asked["trained_tokens"] = amount(work, facts)
    for figure, count in asked.items():
        if figures.get(figure) != count:
            raise RunError(f"{name} did other work than was asked for: {figure} is {figures.get(figure)}, not {count}")


def amount(work: Work, facts: Mapping[str, Any]) -> int:
    """How much of what its rate counts a piece of work is: samples, trained tokens, sampled or computed tokens."""
    if work.kind == "sft":
        return int(facts["trained_tokens"])
    if work.kind == "grpo":
        return work.rows
    if work.kind == "learner":
        return work.prompts * work.prompt_tokens + work.rows * work.new_tokens
    return work.rows * work.new_tokens
