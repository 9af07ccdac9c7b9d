"""What an environment is: reset, step, verify, snapshot, close, and the typed things that pass between it and a model.

An environment never sees tokens. It is told what the model said, as text and as tool calls that fit the tools it
offered; it answers with messages. What the model got wrong (broken JSON, an unknown tool, a wrong type) is told to the
model and never reaches the environment. What raises or hangs in one is the machinery's fault: the attempt has
no reward and leaves the statistics (promise E8). No torch here.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from burnish.tasks.task import Message, Task
from burnish.traces import Status, Verdict

Tool = dict[str, Any]
"""A tool's description as chat templates and model servers take it: type function, name, description, parameters."""

Ended = Literal["done", "turns", "tokens", "context", "clock"]
"""Why an attempt ended: the environment was done with it, or a budget: turns, sampled tokens, the model's context, the
seconds that the environment may work."""


@dataclass(frozen=True)
class Call:
    """A tool call that fits the tool's description."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class WrongCall:
    """A call that cannot be made, by the name of what is wrong (docs/environments.md) and a reason for the model."""

    kind: str
    reason: str


@dataclass(frozen=True)
class Action:
    """A turn of the model: its text, and the calls in it. With `wrong` calls the environment does not get to see it."""

    text: str
    calls: tuple[Call, ...] = ()
    wrong: tuple[WrongCall, ...] = ()


@dataclass(frozen=True)
class Observation:
    """What the model is told next: messages of the roles system, user and tool. `tools` counts in a reset's alone; that
    may also show examples, with turns of the role assistant (`showed`).

    `done` ends the attempt; messages beside it are not shown to the model. `state_key` names the state that the next
    action is taken in, for methods that compare actions in equal states.
    """

    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    done: bool = False
    state_key: str | None = None


@dataclass(frozen=True)
class Turn:
    """An observation and the action that followed it."""

    observation: Observation
    action: Action


@dataclass
class Attempt:
    """What a model did with a task, and why it ended."""

    task: Task
    turns: list[Turn] = field(default_factory=list)
    ended: Ended | None = None

    @property
    def answer(self) -> str | None:
        """The text of the last turn, where that calls no tool; None where there is none."""
        if not self.turns or self.turns[-1].action.calls or self.turns[-1].action.wrong:
            return None
        return self.turns[-1].action.text

    @property
    def wrong_calls(self) -> int:
        """How many turns held a call that could not be made."""
        return sum(bool(turn.action.wrong) for turn in self.turns)


class Environment(ABC):
    """Where an attempt takes place. Each attempt has one of its own; `close` is always called.

    Subclass it. A method may take up to `episodes.call_seconds`; one that raises or takes longer costs the attempt its
    reward. Each environment runs in a thread and an event loop of its own, so it may block, and its answers are
    journalled, so that a resumed run replays them.
    """

    pure = False
    """Whether every answer is a function of the task, the seed and the actions, and comes at once. Such an environment
    runs in the run's own thread, and nothing of it is journalled: a resumed run asks it again."""

    replayable = True
    """Whether a resumed run may make again, in a fresh environment, the calls of an attempt that a kill interrupted.
    False for one whose calls change something that is not its own: the attempt is spoilt instead, and drawn anew."""

    @abstractmethod
    async def reset(self, task: Task, *, seed: int) -> Observation:
        """Begin an attempt. What the task is must depend on `task` alone; `seed` is another one for each attempt."""

    @abstractmethod
    async def step(self, action: Action) -> Observation:
        """Carry out an action."""

    @abstractmethod
    async def verify(self, attempt: Attempt) -> Verdict:
        """Judge an attempt that has ended. A verdict without a reward takes it out of the statistics."""

    async def snapshot(self) -> Environment:
        """An independent environment in this very state, to go on from here in another way; by default a deep copy."""
        return copy.deepcopy(self)

    async def close(self) -> None:  # noqa: B027 - most have nothing to give up
        """Give up whatever is held."""


# ---------------------------------------------------------------- for those who write environments


Move = Call | str
"""What a scripted policy does in a turn: a tool call, or a text."""


_TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def tool(name: str, description: str = "", **parameters: type | Sequence[str]) -> Tool:
    """A tool's description; each parameter is str, int, float, bool or a list of the texts there are, and required.

    >>> tool("get", "Look a key up.", key=str, kind=("a", "b"))["function"]["parameters"]["properties"]
    {'key': {'type': 'string'}, 'kind': {'type': 'string', 'enum': ['a', 'b']}}
    """
    schema = {
        "type": "object",
        "properties": {
            key: {"type": _TYPES[kind]} if isinstance(kind, type) else {"type": "string", "enum": list(kind)}
            for key, kind in parameters.items()
        },
        "required": list(parameters),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def said(text: str, *tools: Tool, state_key: str | None = None) -> Observation:
    """An observation of one message from the user, for a reset also with the tools there are."""
    return Observation(({"role": "user", "content": text},), tools, state_key=state_key)


def result(call: Call, value: Any) -> Message:
    """The message that answers a call."""
    return {"role": "tool", "name": call.name, "content": str(value)}


def showed(move: Move) -> Message:
    """A turn of an example that a reset shows: a text, or a call, which is written in the form that calls have."""
    if isinstance(move, str):
        return {"role": "assistant", "content": move}
    function = {"name": move.name, "arguments": dict(move.arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": function}]}


def shown_calls(message: Message) -> list[Call]:
    """The calls of such a turn. Raises ValueError when it is not one that `showed` gives."""
    try:
        functions = [each["function"] for each in message.get("tool_calls", ())]
        return [Call(str(function["name"]), dict(function["arguments"])) for function in functions]
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"tool_calls: expected what `showed` makes, given {str(message['tool_calls'])[:80]}") from None


def passed(right: bool, reason: str = "", **evidence: Any) -> Verdict:
    """A verdict of 1 for a task that was done, of 0 (task_fail) with a reason for one that was not."""
    if right:
        return Verdict(1.0, evidence=evidence)
    return Verdict(0.0, Status.TASK_FAIL, reason or "the task was not done", evidence=evidence)


# ---------------------------------------------------------------- families of tasks, and what plays in them


Policy = Callable[[Task, Any], Generator[Move, Observation, None]]
"""A scripted policy: given a task and a numpy generator it yields moves and is sent the observations that follow.

What it yields first answers the reset's observation. A policy that returns says nothing more: the attempt ends."""


class Family(Protocol):
    """Tasks of one kind with the environment they are attempted in."""

    name: str

    @property
    def pure(self) -> bool:
        """Whether its environments are (`Environment.pure`)."""
        ...

    def tasks(self) -> list[Task]:
        """The tasks, in the order in which they are attempted."""
        ...

    def make(self) -> Environment:
        """A fresh environment."""
        ...


class World(Family, Protocol):
    """A family whose tasks are generated, with the policies that its admission gate and its demonstrations need."""

    levels: Sequence[int]
    """The difficulties there are, from easy to hard."""

    turns: int
    """Most turns that an attempt at the hardest of its tasks needs, with some to spare."""

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        """Does the task, knowing no more than a model is told, so that it can be imitated."""
        ...

    def shown_by(self, task: Task) -> Policy:
        """Who shows the task to supervised training: the oracle, or another where the recipe mixes one in."""
        ...

    def stray(self, task: Task, draw: Any) -> Move:
        """A random move that a task allows, good or bad: what a weak policy does now and then."""
        ...

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        """Ways to score without doing the task, by name; none of them may work.

        A world may besides have `guesses`, the names of those that guess and so may be right by luck; `floor`, the
        reward that failing has (0 without it); `hidden(task)`, texts that no observation may hold.
        """
        ...

    def exploits(self) -> Mapping[str, Policy]:
        """Ways to score without doing the task that the world has on purpose; each must be flagged when it scores."""
        ...

    def secrets(self, task: Task) -> Sequence[str]:
        """Texts that the opening of an attempt may not hold."""
        ...
