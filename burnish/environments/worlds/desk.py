"""Requests at a desk: each is met by one call of the right tool, with its arguments in the tool's order.

There are three sets of tools. They have other words, other names and other orders of arguments, and the same kinds of
arguments, so what is learnt in one set may or may not carry over to another: the design of studies of tool calling
that train on one collection of functions and test on the others ("SFT or RL for Tool-Calling Agents?", arXiv
2609.17848), tiny.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from burnish.environments.protocol import (
    Action,
    Attempt,
    Call,
    Environment,
    Move,
    Observation,
    Policy,
    Tool,
    passed,
    result,
    said,
    tool,
)
from burnish.environments.spec import DeskSpec
from burnish.environments.worlds.generated import generate, world_task
from burnish.tasks import Task
from burnish.traces import Verdict

LETTERS = "abcdefghij"

SETS: Mapping[str, Mapping[str, tuple[str, tuple[str, str]]]] = {
    "bank": {"give": ("lend", ("who", "sum")), "need": ("bill", ("who", "sum"))},
    "post": {"send": ("mail", ("days", "town")), "pick": ("pull", ("days", "town"))},
    "shop": {"want": ("sell", ("item", "count")), "swap": ("turn", ("count", "item"))},
}
"""Set -> verb of a request -> the tool that meets it, and its parameters in order."""

_NUMBERS = ("sum", "days", "count")
"""The parameters that are numbers; the others are names."""


def tools_of(name: str, described: bool = False) -> list[Tool]:
    """The tools of a set."""
    return [
        tool(called, f"Meets a request to {verb}." if described else "", **{p: _kind(p) for p in parameters})
        for verb, (called, parameters) in SETS[name].items()
    ]


def _kind(parameter: str) -> type:
    return int if parameter in _NUMBERS else str


def draw(generator: np.random.Generator, level: int, sets: Sequence[str]) -> dict[str, Any]:
    """A task. A number has as many digits as the level says and a name one letter more, at most three; from level 3 on
    the number is corrected by a second one, at level 4 the name as well."""
    chosen = str(generator.choice(list(sets)))
    verb = str(generator.choice(list(SETS[chosen])))
    digits, letters = min(level, 3), min(level + 1, 3)
    numbers = [int(generator.integers(10 ** (digits - 1), 10**digits)) for _ in range(2 if level > 2 else 1)]
    names = ["".join(generator.choice(list(LETTERS), letters)) for _ in range(2 if level > 3 else 1)]
    return {"set": chosen, "verb": verb, "numbers": numbers, "names": names}


def right_call(content: Mapping[str, Any]) -> Call:
    """The call that meets a request: of what was corrected, the last counts."""
    called, parameters = SETS[content["set"]][content["verb"]]
    number, name = content["numbers"][-1], content["names"][-1]
    return Call(called, {p: number if p in _NUMBERS else name for p in parameters})


class Desk(Environment):
    """One request, one turn: what the tool answers is not needed any more."""

    pure = True

    def __init__(self, wording: str = "short") -> None:
        self.full = wording == "full"

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """See `Environment.reset`."""
        opening = said(task.text, *tools_of(task.columns["set"], self.full))
        return replace(opening, messages=task.messages or ())

    async def step(self, action: Action) -> Observation:
        """See `Environment.step`."""
        return Observation(tuple(result(call, "done") for call in action.calls), done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        """See `Environment.verify`."""
        calls = [call for turn in attempt.turns for call in turn.action.calls]
        return passed(calls == [right_call(attempt.task.columns)], "not the one call that was asked for")


class DeskWorld:
    """See `burnish.environments.protocol.World`."""

    name = "desk"
    pure = True
    guesses = ("always the same call",)

    def __init__(self, spec: DeskSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed if spec.seed is None else spec.seed
        self.levels: Sequence[int] = sorted(spec.levels)
        self.turns = 1

    def tasks(self) -> list[Task]:
        """See `World.tasks`."""
        contents = generate(self.name, self.spec, self.seed, lambda g, level: draw(g, level, self.spec.sets))
        return [world_task(self.name, c, self._prompt(c), _shown(right_call(c)), self.seed) for c in contents]

    def _prompt(self, content: Mapping[str, Any]) -> str:
        numbers, names = content["numbers"], content["names"]
        if self.spec.wording == "short":
            return " ".join([content["verb"], " no ".join(map(str, numbers)), " no ".join(names)])
        asked = f"{content['verb']} {', no, '.join(map(str, numbers))} with {', no, '.join(names)}"
        return f"Somebody at the desk asks: {asked}. Call the tool that meets the request, once, and say nothing else."

    def make(self) -> Environment:
        """See `World.make`."""
        return Desk(self.spec.wording)

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        """See `World.oracle`."""
        yield right_call(task.columns)

    def shown_by(self, task: Task) -> Policy:
        """See `World.shown_by`."""
        return self.oracle

    def stray(self, task: Task, draw: Any) -> Move:
        """See `World.stray`."""
        called, parameters = list(SETS[task.columns["set"]].values())[int(draw.integers(2))]
        letters = "".join(draw.choice(list(LETTERS), 2))
        return Call(called, {p: int(draw.integers(10, 100)) if p in _NUMBERS else letters for p in parameters})

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        """See `World.shortcuts`."""
        return {"the request itself": _request, "a word": _word, "always the same call": _same}

    def exploits(self) -> Mapping[str, Policy]:
        """See `World.exploits`."""
        return {}

    def secrets(self, task: Task) -> list[str]:
        """See `World.secrets`."""
        return [str(task.answer)]


def _shown(call: Call) -> str:
    """A call as a text, for people."""
    return f"{call.name}({','.join(str(value) for value in call.arguments.values())})"


def _request(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield task.text


def _word(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield "done"


def _same(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    called, parameters = next(iter(SETS[task.columns["set"]].values()))
    yield Call(called, {p: 5 if p in _NUMBERS else "aa" for p in parameters})
