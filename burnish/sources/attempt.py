"""One attempt from its first turn to its verdict, whoever plays: budgets, complaints, faults, branches."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from burnish.environments.guard import EnvironmentFault, Guarded
from burnish.environments.protocol import Action, Attempt, Ended, Observation, Turn
from burnish.sources.calls import Calls
from burnish.sources.spec import BranchSpec
from burnish.traces import Status, Verdict


class Player(Protocol):
    """Whoever takes the turns of an attempt: a model, or a script."""

    @property
    def calls(self) -> Calls:
        """The form of its calls, and the tools there are."""
        ...

    async def turn(self, observation: Observation, left: int | None) -> Action | Ended | None:
        """The answer to an observation, of at most `left` tokens; or why there is none: None for a failure."""
        ...

    async def turns(
        self, observation: Observation, left: int | None, ways: int
    ) -> Sequence[tuple[Player, Action | None]] | Ended:
        """The answer in several ways, each with the player that goes on from there."""
        ...

    @property
    def sampled(self) -> int:
        """Tokens sampled so far."""
        ...

    def end(self) -> None:
        """No more turns will be asked for."""
        ...


@dataclass(frozen=True)
class Limits:
    """Budgets of an attempt: turns, tokens of all turns together, seconds that the environment works."""

    turns: int
    tokens: int | None = None
    seconds: float | None = None
    branch: BranchSpec | None = None
    judged: bool = True
    """Whether the environment judges; otherwise somebody else does so later."""

    def longest(self, turn: int) -> int:
        """The most tokens that can be sampled, where a turn has at most so many."""
        return turn * self.turns if self.tokens is None else min(turn * self.turns, self.tokens)

    def in_ways(self, ways: int) -> Limits:
        """The same, for an attempt that goes on in so many ways where it parts; in one, it does not part."""
        if self.branch is None or self.branch.ways == ways:
            return self
        return replace(self, branch=BranchSpec(turn=self.branch.turn, ways=ways) if ways > 1 else None)


@dataclass
class Result:
    """An attempt with its verdict, and the player that made it; None where it never began."""

    player: Player | None
    attempt: Attempt
    verdict: Verdict | None


@dataclass
class Course:
    """An attempt on its way. `counted` is told each step of the environment."""

    environment: Guarded
    player: Player
    attempt: Attempt
    limits: Limits
    name: Sequence[Any] = ()
    counted: Callable[[], None] = lambda: None
    branched: bool = field(default=False)

    async def run(self, observation: Observation, action: Action | Ended | None) -> list[Result]:
        """From the first action to the verdict; one result, or one for each branch."""
        try:
            while isinstance(action, Action):
                self.attempt.turns.append(Turn(observation, action))
                answer = await self._answer(action)
                ended = self._over(answer)
                if ended is not None:
                    return [await self._judged(ended)]
                observation = answer
                if self._branches_here:
                    return await self._branches(observation)
                action = await self.player.turn(observation, self._left)
            if action is None:
                return [await self._failed(EnvironmentFault("step", "the model's turn was cancelled"))]
            return [await self._judged(action)]
        except EnvironmentFault as fault:
            return [await self._failed(fault)]
        finally:
            self.player.end()
            await _closed(self.environment)

    async def _answer(self, action: Action) -> Observation:
        if action.wrong:
            return Observation(tuple(self.player.calls.complaint(action)))
        self.counted()
        return await self.environment.step(action)

    @property
    def _left(self) -> int | None:
        return None if self.limits.tokens is None else self.limits.tokens - self.player.sampled

    def _over(self, observation: Observation) -> Ended | None:
        if observation.done:
            return "done"
        if self.limits.seconds is not None and self.environment.seconds > self.limits.seconds:
            return "clock"
        if len(self.attempt.turns) >= self.limits.turns:
            return "turns"
        return "tokens" if self._left is not None and self._left < 1 else None

    async def _judged(self, ended: Ended) -> Result:
        self.attempt.ended = ended
        if not self.limits.judged:
            await self.environment.close()
            return Result(self.player, self.attempt, None)
        verdict = await self.environment.verify(self.attempt)
        await self.environment.close()
        if ended == "clock" and verdict.status in (Status.OK, Status.TASK_FAIL):
            reason = f"the environment worked for more than {self.limits.seconds:g} s"
            verdict = replace(verdict, status=Status.TIME_LIMIT, reason=reason)
        elif ended != "done" and verdict.status is Status.TASK_FAIL:
            verdict = replace(verdict, reason=f"{verdict.reason}; out of {ended}")
        if self.attempt.wrong_calls:
            verdict = replace(verdict, evidence={**verdict.evidence, "wrong_calls": _kinds(self.attempt)})
        return Result(self.player, self.attempt, verdict)

    async def _failed(self, fault: EnvironmentFault) -> Result:
        return Result(self.player, self.attempt, await spoilt(self.environment, fault))

    @property
    def _branches_here(self) -> bool:
        branch = self.limits.branch
        return branch is not None and not self.branched and len(self.attempt.turns) == branch.turn

    async def _branches(self, observation: Observation) -> list[Result]:
        """Go on in several ways from here, each in an environment of its own."""
        assert self.limits.branch is not None
        ways = self.limits.branch.ways
        environments = [self.environment]
        try:
            for way in range(1, ways):
                environments.append(await self.environment.snapshot([*self.name, "branch", way]))
            found = await self.player.turns(observation, self._left, ways)
            if isinstance(found, str):
                return [await self._judged(found)]
            courses = [
                replace(self, environment=e, player=player, attempt=copy.copy(self.attempt), branched=True)
                for e, (player, _) in zip(environments, found, strict=True)
            ]
            for course in courses:
                course.attempt.turns = list(self.attempt.turns)
            parts = await gathered([c.run(observation, action) for c, (_, action) in zip(courses, found, strict=True)])
            return [result for part in parts for result in part]
        finally:
            for environment in environments[1:]:
                await _closed(environment)


Value = TypeVar("Value")


async def gathered(work: Sequence[Coroutine[Any, Any, Value]]) -> list[Value]:
    """What all of them give, in order. When one raises, or the waiter is cancelled, the others are cancelled."""
    running = [asyncio.ensure_future(each) for each in work]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for each in running:
            each.cancel()


async def _closed(environment: Guarded) -> None:
    """See to it that an environment is closed, also where the attempt was given up."""
    with suppress(EnvironmentFault):  # whoever needs to know has closed it before
        await environment.close()
    environment.abandon()


def _kinds(attempt: Attempt) -> dict[str, int]:
    kinds = [wrong.kind for turn in attempt.turns for wrong in turn.action.wrong]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


async def spoilt(environment: Guarded, fault: EnvironmentFault) -> Verdict:
    """Close an environment that failed; the verdict on its attempt."""
    verdict = fault.verdict
    try:
        await environment.close()
    except EnvironmentFault as another:
        verdict = replace(verdict, reason=f"{verdict.reason}; then {another.verdict.reason}")
    return replace(verdict, evidence={**verdict.evidence, "trace": fault.trace}) if fault.trace else verdict
