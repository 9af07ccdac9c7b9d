"""Numeric verifiers: the number a person would read, compared exactly."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback import FeedbackSpec, build
from burnish.feedback.numbers import last_number, only_number
from burnish.tasks import Task


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("132", "132"),
        ("47 + 85 = 132.", "132"),
        ("The answer is **132**!", "132"),
        ("= -3", "-3"),
        ("\u22123", "-3"),
        ("(-3)", "-3"),
        ("+7", "7"),
        ("-$5", "-5"),
        ("5-3", "3"),
        ("x-3", "3"),
        ("10 - 3", "3"),
        ("50%-20%", "20"),
        ("1,234,567", "1234567"),
        ("$1,234.50", "1234.5"),
        ("1{,}234", "1234"),
        ("1,23", "23"),
        ("1,2345", "2345"),
        ("1234,567", "567"),
        ("007", "7"),
        ("3.14", "3.14"),
        (".5", "0.5"),
        ("so...5", "5"),
        ("1e3", "1000"),
        ("2.5e-2", "0.025"),
        (r"\boxed{132}", "132"),
        ("3/4", "4"),
        ("12 apples and 3 pears", "3"),
        ("none at all", None),
        ("", None),
        ("-", None),
        ("\u0661\u0662", None),  # Arabic-Indic digits
        ("9" * 400, None),
        ("1e99999999", "99999999"),  # no exponent of that size is worked out
    ],
)
def test_the_last_number_of_a_text(text: str, number: str | None) -> None:
    assert last_number(text) == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("3/4", "3/4"),
        (r"it is $-\frac{3}{4}$.", "-3/4"),
        ("1,000/3", "1000/3"),
        ("5/0", None),
        ("7", "7"),
        ("1/2.5", "2.5"),
    ],
)
def test_fractions_when_asked_for(text: str, number: str | None) -> None:
    assert last_number(text, fractions=True) == (None if number is None else Fraction(number))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("132", 132),
        (" 132\n", 132),
        ("-1,000", -1000),
        ("132.", None),
        ("= 132", None),
        ("132 apples", None),
        ("", None),
        ("1 2", None),
    ],
)
def test_a_text_that_is_only_a_number(text: str, number: int | None) -> None:
    assert only_number(text) == number


@given(st.integers(-(10**15), 10**15), st.sampled_from(["{}", "{:,}", "= {}.", "({})", "x = {:,}\n", "**{}**"]))
def test_every_integer_is_found_as_written(value: int, layout: str) -> None:
    assert last_number("I get 3 first, but then " + layout.format(value)) == value


@given(st.text(max_size=200))
def test_no_text_breaks_the_reader(text: str) -> None:
    for found in (last_number(text), only_number(text), last_number(text, fractions=True)):
        assert found is None or isinstance(found, Fraction)


def _rewards(texts: list[str], columns: dict[str, Any], **spec: Any) -> list[float | None]:
    feedback = build(FeedbackSpec.model_validate(spec))
    return [v.reward for v in asyncio.run(feedback.verdicts("t", columns, texts))]


def test_last_number_and_exact_modes() -> None:
    texts = ["132", "It is 132.", "131", "no idea"]
    assert _rewards(texts, {"answer": "132"}, kind="numeric") == [1.0, 1.0, 0.0, 0.0]
    assert _rewards(texts, {"answer": 132}, kind="numeric", mode="exact") == [1.0, 0.0, 0.0, 0.0]
    assert _rewards(texts, {"answer": 5}, kind="format") == [1.0, 0.0, 1.0, 0.0]


def test_answers_as_data_sets_write_them() -> None:
    assert _rewards(["72"], {"answer": "48/2 = 24, 48+24 = 72\n#### 72"}, kind="numeric") == [1.0]
    assert _rewards(["1000"], {"total": "1,000"}, kind="numeric", column="total") == [1.0]
    assert _rewards(["0.333"], {"answer": "1/3"}, kind="numeric", tolerance=0.001) == [1.0]
    assert _rewards(["0.1 + 0.2 = 0.3"], {"answer": 0.3}, kind="numeric") == [1.0]


def test_rows_without_a_number_are_refused_before_the_run() -> None:
    feedback = build(FeedbackSpec.model_validate({"kind": "numeric"}))
    good = Task(prompt="a", columns={"answer": "1"})
    feedback.check([good])
    with pytest.raises(
        InputError, match=r"task \w+ \('1'\): .*column 'answer', which is not there; did you mean 'anwser'"
    ):
        feedback.check([good, Task(prompt="a", columns={"anwser": "1"})])
    with pytest.raises(InputError, match=r"needs a number in column 'answer', not 'twelve'"):
        feedback.check([Task(prompt="a", columns={"answer": "twelve"})])
    with pytest.raises(InputError, match="not 'True'"):
        feedback.check([Task(prompt="a", columns={"answer": True})])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "numerical"}, "numeric"),
        ({"kind": "numeric", "mdoe": "exact"}, "mdoe"),
        ({"rewards": []}, "rewards"),
        ({"kind": "numeric", "weight": float("nan")}, "weight"),
        ({"kind": "numeric", "tolerance": -1}, "tolerance"),
        ({"kind": "function"}, "function"),
    ],
)
def test_wrong_specs_are_refused(spec: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FeedbackSpec.model_validate(spec)


def test_a_right_answer_written_as_a_fraction_asks_for_answers_so_written() -> None:
    assert _rewards(["3/4", "0.75", "It is 3/4", "4", "3"], {"answer": "3/4"}, kind="numeric") == [
        1.0,
        1.0,
        1.0,
        0.0,
        0.0,
    ]
    assert _rewards(["3/4"], {"answer": "4"}, kind="numeric") == [1.0], "elsewhere 3/4 ends with the number 4"
