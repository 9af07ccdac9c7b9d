"""The forms in which a row gives the tests of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Tests:
    """Tests of one of three forms; an entry of `given` belongs to the one of `expected` at its place."""

    form: str
    """assertions: `given` are texts; calls: `given` are lists of arguments; output: `given` are standard input."""
    given: list[Any]
    expected: list[Any]
    function: str | None = None


def read_tests(value: Any) -> Tests | None:
    """Tests as a data set gives them; None when this is no form of them.

    * a text, or a list of texts: assertions, each text one test (HumanEval, MBPP)
    * {"inputs": [...], "outputs": [...]}: standard input and output (APPS, TACO); with "fn_name" arguments and result
    * a list of {"input", "output"}: standard input and output
    """
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list) and value and all(isinstance(test, dict) for test in value):
        if not all({"input", "output"} <= test.keys() for test in value):
            return None
        value = {"inputs": [test["input"] for test in value], "outputs": [test["output"] for test in value]}
    if isinstance(value, list):
        good = bool(value) and all(isinstance(test, str) and test.strip() for test in value)
        return Tests("assertions", value, [True] * len(value)) if good else None
    return _pairs(value) if isinstance(value, dict) else None


def _pairs(value: dict[str, Any]) -> Tests | None:
    given, expected, function = value.get("inputs"), value.get("outputs"), value.get("fn_name")
    if not isinstance(given, list) or not isinstance(expected, list) or not given or len(given) != len(expected):
        return None
    if function is not None:
        good = isinstance(function, str) and all(isinstance(arguments, list) for arguments in given)
        return Tests("calls", given, expected, function) if good else None
    good = all(isinstance(text, str) for text in (*given, *expected))
    return Tests("output", given, expected) if good else None


def same_output(expected: str, printed: str) -> bool:
    """Whether two outputs are the same, white space at the ends of lines and of the whole aside."""
    return _lines(expected) == _lines(printed)


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]
