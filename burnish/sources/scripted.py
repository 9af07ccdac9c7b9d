"""Scripted policies as players: an oracle's attempts to imitate, and what an admission gate tries out.

They go through the same attempts as a model's turns. A move is written as a model would write it, and read again; at
the gate a call is made as it is, whether or not the form can express it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from burnish.environments.guard import EnvironmentFault, Guarded
from burnish.environments.protocol import Action, Attempt, Call, Ended, Family, Move, Observation, Policy, World
from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.randomness import counter_generator, stable_hash
from burnish.sources.attempt import Course, Limits, Player, Result, spoilt
from burnish.sources.calls import Calls, Syntax
from burnish.sources.order import TaskOrder
from burnish.sources.source import demonstration_group
from burnish.sources.spec import DemonstrationsSpec
from burnish.tasks import Task
from burnish.tasks.task import Message
from burnish.traces import Group
from burnish.traces.templates import Format

_DRAWS = stable_hash("burnish.sources.scripted/draws")


@dataclass
class Scripted:
    """A policy as a player; it keeps what was said. It samples no tokens."""

    calls: Calls
    moves: Any
    """The generator that the policy gave."""
    direct: bool = False
    """Whether its calls are made as they are."""
    messages: list[Message] = field(default_factory=list)
    begun: bool = False
    sampled: int = 0

    async def turn(self, observation: Observation, left: int | None) -> Action | Ended | None:
        """See `Player.turn`."""
        self.messages += [dict(message) for message in observation.messages]
        try:
            move = self.moves.send(observation) if self.begun else next(self.moves)
        except StopIteration:
            return "turns"
        self.begun = True
        action = self._action(move)
        self.messages.append({"role": "assistant", "content": action.text})
        return action

    def _action(self, move: Move) -> Action:
        if self.direct and isinstance(move, Call):
            return self.calls.made(move)
        text = self.calls.write(move)
        return self.calls.read(lambda: text, text)

    def end(self) -> None:
        """See `Player.end`."""

    async def turns(
        self, observation: Observation, left: int | None, ways: int
    ) -> Sequence[tuple[Player, Action | None]] | Ended:
        """A script has one way."""
        raise ValueError("a scripted attempt does not branch")


@dataclass(frozen=True)
class Theatre:
    """Everything that a scripted attempt needs besides its environment."""

    syntax: Syntax
    tools_shown: bool = False
    turns: int = 64
    call_seconds: float = 60.0
    direct: bool = False
    """Whether calls are made as they are, and not written and read again."""

    async def play(self, family: Family, task: Task, policy: Policy, seed: int = 0) -> tuple[Result, Scripted]:
        """A policy's attempt at a task in a fresh environment of its family, and what was said in it."""
        environment = Guarded(family.make, family.pure, self.call_seconds, [task.id, seed])
        attempt = Attempt(task)
        try:
            opening = await environment.reset(task, seed)
            calls = Calls(self.syntax, opening.tools, self.tools_shown)
        except EnvironmentFault as fault:
            player = Scripted(Calls(self.syntax, (), self.tools_shown), iter(()))
            return Result(player, attempt, await spoilt(environment, fault)), player
        player = Scripted(calls, policy(task, counter_generator(_DRAWS, task.number, seed)), self.direct)
        course = Course(environment, player, attempt, Limits(self.turns))
        [result] = await course.run(opening, await player.turn(opening, None))
        return result, player


class OracleDemonstrations:
    """A source of a world's own demonstrations: attempts of its oracle, or of whom the recipe mixes in, rendered."""

    def __init__(
        self,
        spec: DemonstrationsSpec,
        world: World,
        theatre: Theatre,
        format: Format,
        seed: int,
        *,
        tool_role: str = "tool",
        ledger: Ledger | None = None,
    ) -> None:
        self.world, self.theatre, self.format, self.tool_role = world, theatre, format, tool_role
        self.ledger = Ledger() if ledger is None else ledger
        self.order = TaskOrder(world.tasks(), spec.prompts_per_step, seed)
        self._shown: dict[str, Task] = {}

    async def groups(self, step: int) -> AsyncIterator[Group]:
        """Play and render each of the step's tasks."""
        for task, taken in self.order.at(step):
            self.ledger.add("policy", "prompts")
            if task.id not in self._shown:
                self._shown[task.id] = await self.shown(task)
            yield demonstration_group(self._shown[task.id], self.format, f"{task.id}/{taken}")

    async def shown(self, task: Task) -> Task:
        """The task with an attempt to imitate. Raises InputError when the oracle fails."""
        policy = self.world.shown_by(task)
        result, player = await self.theatre.play(self.world, task, policy)
        verdict = result.verdict
        if policy == self.world.oracle and (verdict is None or verdict.reward != 1.0):
            raise InputError(
                f"the oracle of {self.world.name} does not do task {task.id} ({verdict and verdict.reason}), so there "
                "is nothing to imitate: see `burnish env gate`"
            )
        messages = [{**m, "role": self.tool_role} if m["role"] == "tool" else m for m in player.messages]
        first = len(result.attempt.turns[0].observation.messages)
        return Task(
            messages=tuple(player.calls.opening(messages[:first])), demonstration=tuple(messages[first:]),
            tools=tuple(player.calls.for_template or ()) or None, columns=task.columns, domain=task.domain,
            seed=task.seed, difficulty=task.difficulty, id=task.id,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """No state: the order is a function of the step."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """No state."""
