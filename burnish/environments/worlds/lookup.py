"""Values under keys, and a calculator: what is asked is an expression of keys, what is known is found with tools."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
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
    passed,
    result,
    said,
    showed,
    tool,
)
from burnish.environments.spec import LookupSpec
from burnish.environments.worlds.generated import generate, shown, world_task
from burnish.randomness import counter_generator, stable_hash
from burnish.tasks import Task
from burnish.tasks.task import Message
from burnish.traces import Verdict

LETTERS, OTHER_LETTERS = "abcdefghij", "klmnopqrstuvwxyz"
"""What keys are made of: those of tasks, and those of examples."""
LOW, HIGH = 10, 99
"""Range of the values."""

_CARELESS = stable_hash("burnish.environments.worlds.lookup/careless")
_EXAMPLES = stable_hash("burnish.environments.worlds.lookup/examples")
_KEY = re.compile(r"[a-z]+")
_NUMBER = re.compile(r"\s*(-?\d{1,18})\s*")
_ARITHMETIC = re.compile(r"[0-9+\-*() ]{1,100}")
_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip


def calculate(expression: str) -> int | None:
    """The value of whole numbers under + - * and brackets; None for anything else, and for more than 100 characters.

    >>> calculate("12+3*(4-5)"), calculate("9**9"), calculate("1+")
    (9, None, None)
    """
    if not _ARITHMETIC.fullmatch(expression):
        return None
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        return None


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError("not arithmetic")


def draw(
    generator: np.random.Generator, level: int, letters: str = LETTERS, low: int = LOW, high: int = HIGH
) -> dict[str, Any]:
    """A task: how many keys and operations goes by the level; at the highest one key holds the name of another."""
    count = min(level, 3)
    keys: list[str] = []
    while len(keys) < count + 1:
        key = "".join(generator.choice(list(letters), 2))
        if key not in keys:
            keys.append(key)
    store: dict[str, int | str] = {key: int(generator.integers(low, high + 1)) for key in keys}
    if level > 3:  # what stands under the first key is the name of the last
        store[keys[0]] = keys[-1]
    signs = [str(sign) for sign in generator.choice(["+", "-"], count - 1)]
    asked = "".join(key + sign for key, sign in zip(keys[:count], [*signs, ""], strict=True))
    return {"asked": asked, "store": store}


def right_answer(content: Mapping[str, Any]) -> int:
    """The value of a task's expression."""
    store = content["store"]

    def value(key: str) -> str:
        found = store[key]
        return value(found) if isinstance(found, str) else str(found)

    answer = calculate(_KEY.sub(lambda key: value(key[0]), content["asked"]))
    assert answer is not None  # the expression is one of ours
    return answer


class Lookup(Environment):
    """A store and a calculator. The answer is a turn that calls nothing."""

    pure = True

    def __init__(self, wording: str = "short", examples: Sequence[Message] = ()) -> None:
        self.full, self.examples = wording == "full", tuple(examples)
        self.store: Mapping[str, int | str] = {}

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """See `Environment.reset`."""
        self.store = task.columns["store"]
        words = ("The value under a key.", "The value of an expression of whole numbers.") if self.full else ("", "")
        opening = said(task.text, tool("get", words[0], key=str), tool("calc", words[1], expression=str))
        return replace(opening, messages=(*self.examples, *opening.messages))

    async def step(self, action: Action) -> Observation:
        """See `Environment.step`."""
        if not action.calls:
            return Observation(done=True)
        return Observation(tuple(result(call, answered(call, self.store)) for call in action.calls))

    async def verify(self, attempt: Attempt) -> Verdict:
        """See `Environment.verify`."""
        number = _NUMBER.fullmatch(attempt.answer or "")
        if number is None:
            return passed(False, "the attempt ended without a number as its answer")
        return passed(int(number[1]) == int(attempt.task.answer or ""), "the answer is another number")


def answered(call: Call, store: Mapping[str, int | str]) -> str:
    """What a tool says."""
    if call.name == "get":
        return str(store.get(call.arguments["key"].strip(), "none"))
    value = calculate(call.arguments["expression"])
    return "error" if value is None else str(value)


class LookupWorld:
    """See `burnish.environments.protocol.World`."""

    name = "lookup"
    pure = True
    guesses = ("a constant",)

    def __init__(self, spec: LookupSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed if spec.seed is None else spec.seed
        self.levels: Sequence[int] = sorted(spec.levels)
        self.turns = 2 + 2 * min(self.levels[-1], 4)

    def tasks(self) -> list[Task]:
        """See `World.tasks`."""
        contents = generate(self.name, self.spec, self.seed, draw)
        return [world_task(self.name, c, self._prompt(c["asked"]), str(right_answer(c)), self.seed) for c in contents]

    def _prompt(self, asked: str) -> str:
        if self.spec.wording == "short":
            return asked
        return (
            f"What is {asked}, where each name is a key under which a number or another key is stored? Look every key "
            "up with get, compute with calc, then answer with the number alone."
        )

    def make(self) -> Environment:
        """See `World.make`."""
        return Lookup(self.spec.wording, self._examples)

    @cached_property
    def _examples(self) -> list[Message]:
        """The oracle's attempts at tasks that are no tasks: of other letters, with values and answers out of range."""
        found: list[list[Message]] = []
        index = 0
        while len(found) < self.spec.examples:
            level = self.levels[len(found) % len(self.levels)]
            content = draw(counter_generator(_EXAMPLES, level, index), level, OTHER_LETTERS, 300, 999)
            index += 1
            if not -HIGH <= right_answer(content) <= 3 * HIGH:
                found.append(self._example(content))
        return [message for example in found for message in example]

    def _example(self, content: Mapping[str, Any]) -> list[Message]:
        messages: list[Message] = [{"role": "user", "content": self._prompt(content["asked"])}]
        moves = self._solve(content)
        move = next(moves)
        while not isinstance(move, str):
            messages += [showed(move), result(move, answered(move, content["store"]))]
            move = moves.send(Observation((messages[-1],)))
        return [*messages, showed(move)]

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        """See `World.oracle`."""
        return self._solve(task.columns)

    def _solve(self, content: Mapping[str, Any]) -> Generator[Move, Observation, None]:
        asked = content["asked"]
        values: dict[str, str] = {}
        for key in _KEY.findall(asked):
            values[key] = key
            while _KEY.fullmatch(values[key]):
                seen = yield Call("get", {"key": values[key]})
                values[key] = seen.messages[0]["content"]
        expression = _KEY.sub(lambda key: values[key[0]], asked)
        if len(values) > 1:
            seen = yield Call("calc", {"expression": expression})
            expression = seen.messages[0]["content"]
        yield expression

    def shown_by(self, task: Task) -> Policy:
        """Who shows the task to supervised training: the oracle, or in a share of the tasks a careless player."""
        return _careless if shown(_CARELESS, self.seed, task, self.spec.careless) else self.oracle

    def stray(self, task: Task, draw: Any) -> Move:
        """See `World.stray`."""
        number = str(draw.integers(LOW, HIGH + 1))
        key = "".join(draw.choice(list(LETTERS), 2))
        moves: list[Move] = [Call("get", {"key": key}), Call("calc", {"expression": number}), number]
        return moves[int(draw.integers(3))]

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        """See `World.shortcuts`."""
        return {"a constant": _constant, "the question": _question, "every number": _every, "the first value": _first}

    def exploits(self) -> Mapping[str, Policy]:
        """See `World.exploits`."""
        return {}

    def secrets(self, task: Task) -> list[str]:
        """See `World.secrets`."""
        return [str(task.answer), *(str(value) for value in task.columns["store"].values() if isinstance(value, int))]


def _careless(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    """Answers without looking up what it should: with the same number always, or with the first of several values."""
    first = len(_KEY.findall(task.columns["asked"])) > 1 and draw.integers(2)
    yield from _first(task, draw) if first else _constant(task, draw)


def _constant(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield "55"


def _question(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield task.text


def _every(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    yield " ".join(str(number) for number in range(-HIGH, 3 * HIGH))


def _first(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    """One value in place of the whole expression; where there is but one key that is the task, and nothing is said."""
    keys = _KEY.findall(task.columns["asked"])
    if len(keys) > 1:
        seen = yield Call("get", {"key": keys[0]})
        yield seen.messages[0]["content"]
