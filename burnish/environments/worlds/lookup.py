"""Values under keys, and a calculator: what is asked is an expression of keys, what is known is found with tools."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Generator, Mapping, Sequence
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
    tool,
)
from burnish.environments.spec import LookupSpec
from burnish.environments.worlds.generated import generate, world_task
from burnish.tasks import Task
from burnish.traces import Verdict

LETTERS = "abcdefghij"
LOW, HIGH = 10, 99
"""Range of the values."""

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


def draw(generator: np.random.Generator, level: int) -> dict[str, Any]:
    """A task: how many keys and operations goes by the level; at the highest one key holds the name of another."""
    count = min(level, 3)
    keys: list[str] = []
    while len(keys) < count + 1:
        key = "".join(generator.choice(list(LETTERS), 2))
        if key not in keys:
            keys.append(key)
    store: dict[str, int | str] = {key: int(generator.integers(LOW, HIGH + 1)) for key in keys}
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

    def __init__(self, wording: str = "short") -> None:
        self.full = wording == "full"
        self.store: Mapping[str, int | str] = {}

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.store = task.columns["store"]
        words = ("The value under a key.", "The value of an expression of whole numbers.") if self.full else ("", "")
        return said(task.text, tool("get", words[0], key=str), tool("calc", words[1], expression=str))

    async def step(self, action: Action) -> Observation:
        if not action.calls:
            return Observation(done=True)
        return Observation(tuple(result(call, self._answer(call)) for call in action.calls))

    def _answer(self, call: Call) -> str:
        if call.name == "get":
            return str(self.store.get(call.arguments["key"].strip(), "none"))
        value = calculate(call.arguments["expression"])
        return "error" if value is None else str(value)

    async def verify(self, attempt: Attempt) -> Verdict:
        number = _NUMBER.fullmatch(attempt.answer or "")
        if number is None:
            return passed(False, "the attempt ended without a number as its answer")
        return passed(int(number[1]) == int(attempt.task.answer or ""), "the answer is another number")


class LookupWorld:
    """See `burnish.environments.protocol.World`."""

    name = "lookup"
    pure = True

    def __init__(self, spec: LookupSpec, seed: int = 0) -> None:
        self.spec, self.seed = spec, seed if spec.seed is None else spec.seed
        self.levels: Sequence[int] = sorted(spec.levels)
        self.turns = 2 + 2 * min(self.levels[-1], 4)

    def tasks(self) -> list[Task]:
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
        return Lookup(self.spec.wording)

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        asked = task.columns["asked"]
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

    def stray(self, task: Task, draw: Any) -> Move:
        number = str(draw.integers(LOW, HIGH + 1))
        key = "".join(draw.choice(list(LETTERS), 2))
        moves: list[Move] = [Call("get", {"key": key}), Call("calc", {"expression": number}), number]
        return moves[int(draw.integers(3))]

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        return {"a constant": _constant, "the question": _question, "every number": _every, "the first value": _first}

    def exploits(self) -> Mapping[str, Policy]:
        return {}

    def secrets(self, task: Task) -> list[str]:
        return [str(task.answer), *(str(value) for value in task.columns["store"].values() if isinstance(value, int))]


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
