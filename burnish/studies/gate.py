"""The admission gate of an environment: can its tasks be done, and can they not be had for nothing.

Scripted policies play in it through the same attempts as a model would. The checks are those that task collections are
admitted by in practice (an oracle passes, an untouched state and shortcuts fail, reruns agree, nothing leaks), and that
harder levels are harder for a policy that errs.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict

from burnish.environments.protocol import Family, Move, Observation, Policy, World
from burnish.environments.registry import WORLDS, build
from burnish.environments.spec import HARDEST, AnyEnvironment
from burnish.errors import BurnishError, InputError
from burnish.methods.recipe import RolloutRecipe
from burnish.randomness import stable_hash
from burnish.running.config import load_recipe, spec_from_mapping
from burnish.running.sync import finished
from burnish.sources.attempt import Result
from burnish.sources.calls import Hermes
from burnish.sources.scripted import Scripted, Theatre
from burnish.tasks import Task, build_tasks
from burnish.tasks.suggest import did_you_mean

LUCK = 0.05
"""Share of the tasks that a shortcut which is declared a guess may be paid for by chance, and by which a harder level
may seem easier."""
SLIP = 0.25
"""How often a weak policy makes a random move instead of the oracle's."""
RERUNS = 3
MOST_FAULTS = 8
"""Attempts that the machinery spoilt, before nothing more is asked."""
CALL_SECONDS = 60.0
"""How long a call of an environment may take that no recipe says it of."""
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
    """Of the attempts of each policy, the share that did the task; of one that must fail, the share that was paid."""

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
    seconds = recipe.episodes.call_seconds if isinstance(recipe, RolloutRecipe) else CALL_SECONDS
    return gate_family(build(recipe.environment, seed=recipe.seed, tasks=rows), tasks=tasks, call_seconds=seconds)


def gate_family(family: Family, *, tasks: int = 40, call_seconds: float = CALL_SECONDS) -> GateReport:
    """As `gate`, for what is built already."""
    return finished(_Gate(cast(World, family), tasks, call_seconds).report())


class _TooManyFaults(Exception):  # noqa: N818 - the end of asking, not a fault of the gate
    """What was asked has failed so often that asking on would only cost time."""


class _Gate:
    """The checks of one environment, in order."""

    def __init__(self, world: World, tasks: int, call_seconds: float) -> None:
        self.world = world
        self.by_level: dict[float, list[Task]] = {}
        for task in world.tasks():
            chosen = self.by_level.setdefault(task.difficulty or 0.0, [])
            if len(chosen) < tasks:
                chosen.append(task)
        self.tasks = [task for level in sorted(self.by_level) for task in self.by_level[level]]
        self.theatre = Theatre(Hermes(), turns=world.turns, call_seconds=call_seconds, direct=True)
        self.floor = float(getattr(world, "floor", 0.0))
        self.rates: dict[str, float] = {}
        self.faults: list[str] = []
        self.attempts = 0

    async def report(self) -> GateReport:
        """Ask everything."""
        if not self.tasks:
            raise InputError(f"environment {self.world.name!r} has no tasks to try")
        started, checks = time.perf_counter(), []
        try:
            async for check in self._checks():
                checks.append(check)
        except _TooManyFaults:
            checks.append(Check("all checks made", False, f"stopped after {len(self.faults)} faults of the machinery"))
        seen = f"{self.attempts} attempts" if not self.faults else f"{len(self.faults)} faults: {self.faults[0]}"
        checks.append(Check("no faults of the machinery", not self.faults, seen))
        seconds = (time.perf_counter() - started) / max(1, self.attempts)
        return GateReport(self.world.name, len(self.tasks), tuple(checks), round(seconds, 6), self.rates)

    async def _checks(self) -> AsyncIterator[Check]:
        yield await self._fails("untouched", _nothing)
        yield await self._fails("no-op", _silent(self.world.turns))
        for check in await self._shortcuts():
            yield check
        for name, policy in self.world.exploits().items():
            yield await self._flagged(name, policy)
        if getattr(self.world, "oracle", None) is None:
            yield Check("solvable", False, "there is no oracle, so nothing shows that the tasks can be done")
        else:
            yield await self._solvable()
            yield await self._same_again()
            yield await self._harder()
        yield await self._kept_secret()
        for check in await self._kept_hidden():
            yield check

    async def _play(
        self, name: str, policy: Policy, tasks: Sequence[Task] | None = None, draws: int = 1
    ) -> list[tuple[Result, Scripted]]:
        """Attempts of a policy; `name` is what their seeds differ by, which each has its own of."""
        chosen = [(task, draw) for task in tasks or self.tasks for draw in range(draws)]
        found = []
        for task, draw in chosen:
            seed = stable_hash(f"burnish.studies.gate/{name}/{task.id}/{draw}")
            found.append(await self._attempt(name, policy, task, seed))
        return found

    async def _attempt(self, name: str, policy: Policy, task: Task, seed: int) -> tuple[Result, Scripted]:
        try:
            result, player = await self.theatre.play(self.world, task, policy, seed)
        except BurnishError:
            raise
        except Exception as error:
            raise InputError(
                f"{name}: the scripted policy of {self.world.name!r} raised {type(error).__name__}: {error}; it is a "
                "static generator function of a task and a numpy generator that yields calls and texts"
            ) from error
        self.attempts += 1
        if result.verdict is None or result.verdict.reward is None:
            self.faults.append(result.verdict.reason if result.verdict else "an attempt was not judged")
            if len(self.faults) >= MOST_FAULTS:
                raise _TooManyFaults
        return result, player

    async def _rate(self, name: str, policy: Policy, tasks: Sequence[Task] | None = None, draws: int = 1) -> float:
        found = await self._play(name, policy, tasks, draws)
        self.rates[name] = float(np.mean([_worth(result) >= 1.0 for result, _ in found]))
        return self.rates[name]

    async def _fails(self, name: str, policy: Policy, luck: float = 0.0) -> Check:
        found = await self._play(name, policy)
        self.rates[name] = rate = float(np.mean([_paid(result) > self.floor for result, _ in found]))
        most = max(_paid(result) for result, _ in found)
        seen = f"is paid more than {self.floor:g} for {100 * rate:.1f} % of the tasks, at most {most:g}"
        return Check(f"{name} fails", rate <= luck, seen)

    async def _shortcuts(self) -> list[Check]:
        guesses = getattr(self.world, "guesses", ())
        return [
            await self._fails(f"shortcut: {name}", policy, LUCK if name in guesses else 0.0)
            for name, policy in self.world.shortcuts.items()
        ]

    async def _flagged(self, name: str, policy: Policy) -> Check:
        """A way to score that is there on purpose: each time it is paid for, the verdict says so."""
        verdicts = [result.verdict for result, _ in await self._play(f"exploit: {name}", policy)]
        paid = [v for v in verdicts if v is not None and v.reward]
        unsaid = [v for v in paid if "hack" not in v.evidence or v.components.get("true", 1.0) >= 1.0]
        seen = f"paid for in {len(paid)} of {len(verdicts)} attempts, {len(unsaid)} of them not flagged"
        return Check(f"exploit: {name} is flagged", bool(paid) and not unsaid, seen)

    async def _solvable(self) -> Check:
        played = [await self._play(f"oracle {time}", self.world.oracle) for time in range(2)]
        rates = [float(np.mean([_worth(result) >= 1.0 for result, _ in found])) for found in played]
        self.rates["oracle"] = min(rates)
        longest = max(len(result.attempt.turns) for found in played for result, _ in found)
        seen = f"the oracle does {100 * min(rates):.1f} % of the tasks, twice, in at most {longest} turns"
        return Check("solvable", min(rates) == 1.0, seen)

    async def _same_again(self) -> Check:
        """The same moves, and the same seeds, lead to the same observations and verdicts."""
        policies = (self.world.oracle, *self._weak())
        runs = []
        for _ in range(RERUNS):
            played = [pair for policy in policies for pair in await self._play("again", policy)]
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
        for (_, player), task in zip(await self._play("secrets", _nothing), self.tasks, strict=True):
            shown = "\n".join(str(message["content"]) for message in player.calls.opening(player.messages))
            leaks += _holds(shown, self.world.secrets(task))
        return Check(
            "nothing private in the opening", not leaks, f"{leaks} of {len(self.tasks)} openings hold a secret"
        )

    async def _kept_hidden(self) -> list[Check]:
        """Where a world says what no observation may hold: whether some does, to one that does not do the task."""
        hidden = getattr(self.world, "hidden", None)
        if hidden is None:
            return []
        leaks = played = 0
        for policy in (_silent(self.world.turns), *self._weak()):
            for (_, player), task in zip(await self._play("hidden", policy), self.tasks, strict=True):
                told = "\n".join(str(m["content"]) for m in player.messages if m["role"] != "assistant")
                leaks += _holds(told, hidden(task))
                played += 1
        return [Check("nothing hidden in the observations", not leaks, f"told in {leaks} of {played} attempts")]


def _holds(text: str, secrets: Sequence[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(str(secret))}(?!\w)", text) for secret in secrets if secret)


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


def _paid(result: Result) -> float:
    """What a policy that must fail was given; a hack that the verdict flags is asked about by itself."""
    verdict = result.verdict
    if verdict is None or verdict.reward is None:
        return 0.0
    return _worth(result) if "hack" in verdict.evidence else verdict.reward
