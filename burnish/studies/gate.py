"""The admission gate of an environment: can its tasks be done, and can they not be had for nothing.

Scripted policies play in it through the same attempts as a model would. The checks are those that task collections are
admitted by in practice (an oracle passes, an untouched state and shortcuts fail, reruns agree, nothing leaks), and that
harder levels are harder for a policy that errs.
"""

from __future__ import annotations

import re
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from burnish.environments.protocol import Family, Move, Observation, Policy, World
from burnish.environments.registry import WORLDS, build
from burnish.environments.spec import HARDEST, AnyEnvironment
from burnish.errors import InputError
from burnish.running.config import load_recipe, spec_from_mapping
from burnish.running.sync import finished
from burnish.sources.attempt import Result
from burnish.sources.calls import Text
from burnish.sources.scripted import Scripted, Theatre
from burnish.tasks import Task, build_tasks
from burnish.tasks.suggest import did_you_mean
from burnish.traces import Status

LUCK = 0.05
"""Share of the tasks that a shortcut may do by chance, and by which a harder level may seem easier."""
SLIP = 0.25
"""How often a weak policy makes a random move instead of the oracle's."""
RERUNS = 3
DRAWS = 10
"""Attempts of the weak policy at each task: its rates are compared, so they must be known well."""


@dataclass(frozen=True)
class Check:
    """One question to an environment, and what was seen."""

    name: str
    passed: bool
    seen: str


@dataclass(frozen=True)
class GateReport:
    """Whether an environment is admitted, and why."""

    name: str
    tasks: int
    checks: tuple[Check, ...]
    seconds_an_attempt: float
    rates: dict[str, float] = field(default_factory=dict)
    """The share of the tasks that each policy did."""

    @property
    def admitted(self) -> bool:
        """Whether every check passed."""
        return all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {**asdict(self), "admitted": self.admitted}


class _Named(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    environment: AnyEnvironment


def gate(target: str | Path, overrides: Sequence[str] = (), *, tasks: int = 40, seed: int = 0) -> GateReport:
    """Put an environment to the gate: a world by its name (lookup, grid, hackable), or the one that a recipe names.

    `overrides` are keys of the environment for a name ("levels=[1,2]"), keys of the recipe for a file. `tasks` of each
    level are tried. Raises InputError for what cannot be built.
    """
    if str(target) in WORLDS:
        keys = {"kind": str(target), "levels": list(range(1, HARDEST + 1)), "count": tasks * HARDEST}
        own = [f"environment.{override}" for override in overrides]
        spec = spec_from_mapping(_Named, {"environment": keys}, own, name=str(target)).environment
        return gate_family(build(spec, seed=seed), tasks=tasks)
    if not Path(target).is_file():
        known = did_you_mean(str(target), WORLDS)
        raise InputError(f"there is no world {str(target)!r} and no recipe of that name; {known}")
    recipe = load_recipe(target, overrides)
    if recipe.environment is None:
        raise InputError(f"{target} names no environment: its prompts are answered in one turn")
    rows = [] if recipe.data is None else build_tasks(recipe.data, seed=recipe.seed)
    return gate_family(build(recipe.environment, seed=recipe.seed, tasks=rows), tasks=tasks)


def gate_family(family: Family, *, tasks: int = 40) -> GateReport:
    """As `gate`, for what is built already."""
    return finished(_Gate(cast(World, family), tasks).report())


class _Gate:
    """The checks of one environment, in order."""

    def __init__(self, world: World, tasks: int) -> None:
        self.world = world
        self.by_level: dict[float, list[Task]] = {}
        for task in world.tasks():
            chosen = self.by_level.setdefault(task.difficulty or 0.0, [])
            if len(chosen) < tasks:
                chosen.append(task)
        self.tasks = [task for level in sorted(self.by_level) for task in self.by_level[level]]
        self.theatre = Theatre(Text(), turns=world.turns)
        self.rates: dict[str, float] = {}
        self.faults: list[str] = []
        self.attempts = 0

    async def report(self) -> GateReport:
        """Ask everything."""
        if not self.tasks:
            raise InputError(f"environment {self.world.name!r} has no tasks to try")
        started = time.perf_counter()
        checks = [await self._fails("untouched", _nothing), await self._fails("no-op", _silent(self.world.turns))]
        checks += [await self._fails(f"shortcut: {name}", policy) for name, policy in self.world.shortcuts.items()]
        checks += [await self._flagged(name, policy) for name, policy in self.world.exploits().items()]
        if getattr(self.world, "oracle", None) is None:
            checks.append(Check("solvable", False, "there is no oracle, so nothing shows that the tasks can be done"))
        else:
            checks += [await self._solvable(), await self._same_again(), await self._harder()]
        checks.append(await self._kept_secret())
        seen = f"{self.attempts} attempts" if not self.faults else f"{len(self.faults)} faults: {self.faults[0]}"
        checks.append(Check("no faults of the machinery", not self.faults, seen))
        seconds = (time.perf_counter() - started) / max(1, self.attempts)
        return GateReport(self.world.name, len(self.tasks), tuple(checks), round(seconds, 6), self.rates)

    async def _play(
        self, policy: Policy, tasks: Sequence[Task] | None = None, draws: int = 1
    ) -> list[tuple[Result, Scripted]]:
        chosen = [(task, draw) for task in tasks or self.tasks for draw in range(draws)]
        found = [await self.theatre.play(self.world, task, policy, draw) for task, draw in chosen]
        self.attempts += len(found)
        for result, _ in found:
            if result.verdict is not None and result.verdict.status is Status.INFRA_ERROR:
                self.faults.append(result.verdict.reason)
        return found

    async def _rate(self, name: str, policy: Policy, tasks: Sequence[Task] | None = None, draws: int = 1) -> float:
        found = await self._play(policy, tasks, draws)
        self.rates[name] = float(np.mean([_worth(result) >= 1.0 for result, _ in found]))
        return self.rates[name]

    async def _fails(self, name: str, policy: Policy) -> Check:
        rate = await self._rate(name, policy)
        allowed = LUCK if name.startswith("shortcut") else 0.0
        return Check(f"{name} fails", rate <= allowed, f"does {100 * rate:.1f} % of the tasks")

    async def _flagged(self, name: str, policy: Policy) -> Check:
        """A way to score that is there on purpose: each time it is paid for, the verdict says so."""
        verdicts = [result.verdict for result, _ in await self._play(policy)]
        paid = [v for v in verdicts if v is not None and v.reward]
        unsaid = [v for v in paid if "hack" not in v.evidence or v.components.get("true", 1.0) >= 1.0]
        seen = f"paid for in {len(paid)} of {len(verdicts)} attempts, {len(unsaid)} of them not flagged"
        return Check(f"exploit: {name} is flagged", bool(paid) and not unsaid, seen)

    async def _solvable(self) -> Check:
        rates = [await self._rate("oracle", self.world.oracle) for _ in range(2)]
        longest = max(len(result.attempt.turns) for result, _ in await self._play(self.world.oracle))
        seen = f"the oracle does {100 * min(rates):.1f} % of the tasks, twice, in at most {longest} turns"
        return Check("solvable", min(rates) == 1.0, seen)

    async def _same_again(self) -> Check:
        """The same moves lead to the same observations and verdicts."""
        policies = (self.world.oracle, *self._weak())
        runs = []
        for _ in range(RERUNS):
            played = [pair for policy in policies for pair in await self._play(policy)]
            runs.append([(player.messages, result.verdict) for result, player in played])
        unlike = sum(any(run[i] != runs[0][i] for run in runs) for i in range(len(runs[0])))
        return Check("deterministic", not unlike, f"{unlike} of {len(runs[0])} attempts differ in {RERUNS} reruns")

    async def _harder(self) -> Check:
        name = "harder levels are harder"
        weak = self._weak()
        if not weak or len(self.by_level) < 2:
            return Check(name, True, "there are no levels to compare, or no random moves (`stray`) to err by")
        rates = []
        for level, tasks in sorted(self.by_level.items()):
            rates.append(await self._rate(f"weak policy, level {level:g}", weak[0], tasks, DRAWS))
        monotone = all(later <= earlier + LUCK for earlier, later in pairwise(rates))
        seen = ", ".join(f"{100 * rate:.0f} %" for rate in rates)
        return Check(name, monotone, f"a policy that errs in {100 * SLIP:.0f} % of its moves does {seen}")

    def _weak(self) -> list[Policy]:
        return [weak(self.world)] if getattr(self.world, "stray", None) is not None else []

    async def _kept_secret(self) -> Check:
        leaks = 0
        for (_, player), task in zip(await self._play(_nothing), self.tasks, strict=True):
            shown = "\n".join(str(message["content"]) for message in player.calls.opening(player.messages))
            leaks += any(re.search(rf"(?<!\w){re.escape(str(s))}(?!\w)", shown) for s in self.world.secrets(task) if s)
        return Check(
            "nothing private in the opening", not leaks, f"{leaks} of {len(self.tasks)} openings hold a secret"
        )


def weak(world: World) -> Policy:
    """The oracle with some of its moves replaced by random ones; it does not notice."""

    def policy(task: Task, draw: np.random.Generator) -> Generator[Move, Observation, None]:
        moves = world.oracle(task, draw)
        move = next(moves, None)
        while move is not None:
            seen = yield world.stray(task, draw) if draw.random() < SLIP else move
            try:
                move = moves.send(seen)
            except StopIteration:
                return

    return policy


def _nothing(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    return
    yield


def _silent(turns: int) -> Policy:
    """Says nothing, again and again."""

    def policy(task: Task, draw: Any) -> Generator[Move, Observation, None]:
        for _ in range(turns):
            yield ""

    return policy


def _worth(result: Result) -> float:
    """The reward; of an attempt whose verdict keeps the two apart, what it deserves."""
    verdict = result.verdict
    if verdict is None or verdict.reward is None:
        return 0.0
    components: Mapping[str, float] = verdict.components
    return components.get("true", verdict.reward)
