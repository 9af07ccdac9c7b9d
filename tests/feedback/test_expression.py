"""The expression verifier: the given numbers, computed exactly, by a parser that nothing hostile can hold up."""

from __future__ import annotations

import ast
import operator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.expressions import Unsound, computed
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

ROW = {"numbers": [3, 5, 2], "target": 16}


@pytest.mark.parametrize(
    "text",
    [
        "(3+5)*2",
        " ( 5 + 3 ) * 2 ",
        "2*(3+5)",
        "(3+5)*2=16",
        "((3)+(5))*2",
        "(3+5)×2",
        "-(-3-5)*2",
        "2·(5+3)",
        "16=(3+5)*2",
        "(3+5)*2=+16",
        "-2*(-3+-5)",
        "(3--5)*2",
        "2*-(-3-+5)",
        "- -2*(5 + +3)",
    ],
)
def test_right_expressions(text: str) -> None:
    assert rewards("expression", ROW, [text]) == [1.0]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("3*5+2", "wrong"),
        ("(3+5)*2=17", "wrong"),
        ("3+5", "wrong_numbers"),
        ("3+5+2+2+2+2", "wrong_numbers"),
        ("(3+5)*2*1", "wrong_numbers"),
        ("16", "wrong_numbers"),
        ("3*5/(2-2)", "wrong_numbers"),
        ("(3+5)*", "broken_expression"),
        ("(3+5*2", "broken_expression"),
        ("3+5)*2", "broken_expression"),
        ("2(3+5)", "broken_expression"),
        ("3**5", "broken_expression"),
        ("17=(3+5)*2", "wrong"),
        ("16=16", "wrong_numbers"),
        ("(3+5)*2=8*2", "broken_expression"),
        ("3-*5", "broken_expression"),
        ("3-", "broken_expression"),
        ("16=", "broken_expression"),
        ("3+5 2", "broken_expression"),
        ("3.0+5", "broken_expression"),
        ("(3+5)*2=", "broken_expression"),
        ("(3+5)*2=16=16", "broken_expression"),
        ("=16", "broken_expression"),
        ("__import__('os').system('true')", "broken_expression"),
        ("", "no_answer"),
    ],
)
def test_what_is_wrong_has_a_name(text: str, kind: str) -> None:
    assert kinds("expression", ROW, [text]) == [kind]
    assert rewards("expression", ROW, [text]) == [0.0]


def test_division_is_exact_and_by_zero_is_named() -> None:
    row = {"numbers": [1, 3, 3], "target": 1}
    assert rewards("expression", row, ["1/3*3", "3/(3/1)", "1+3-3"]) == [1.0, 1.0, 1.0]
    assert kinds("expression", row, ["1/(3-3)"]) == ["division_by_zero"]


def test_numbers_may_be_left_over_where_the_recipe_says_so() -> None:
    row = {"numbers": [8, 8, 2], "target": 16}
    spec = {"kind": "expression", "every": False}
    assert rewards(spec, row, ["8*2", "8+8", "8+8+8", "2*2*2*2"]) == [1.0, 1.0, 0.0, 0.0]
    assert rewards("expression", row, ["8*2", "8+8"]) == [0.0, 0.0]


def test_the_right_numbers_with_another_value_may_be_worth_something() -> None:
    spec = {"kind": "expression", "form_share": 0.1}
    assert rewards(spec, ROW, ["(3+5)*2", "3+5+2", "3+5", "3+5+"]) == [1.0, 0.1, 0.0, 0.0]
    [verdict] = judged(spec, ROW, ["3+5+2"])
    assert verdict.reason == "expression: wrong: the expression comes to 10, not 16"


def test_the_expression_is_read_where_the_rule_says_and_the_columns_have_names() -> None:
    spec = {"kind": "expression", "read": "tag", "column": "goal", "numbers": "nums"}
    row = {"nums": "[3, 5, 2]", "goal": "16"}
    assert rewards(spec, row, ["<think>3+5+2</think><answer>(3+5)*2</answer>", "(3+5)*2"]) == [1.0, 0.0]
    assert rewards({**spec, "read": "whole", "thoughts_end": "#"}, row, ["no # (3+5)*2"]) == [1.0]


@pytest.mark.parametrize(
    "columns",
    [
        {"numbers": [1]}, {"target": 1}, {"numbers": [], "target": 1}, {"numbers": [1.5], "target": 1},
        {"numbers": [True], "target": 1}, {"numbers": [1], "target": True}, {"numbers": [1], "target": 1.5},
        {"numbers": [-1], "target": 1}, {"numbers": 3, "target": 3}, {"numbers": [10**15], "target": 1},
        {"numbers": [1] * 101, "target": 1}, {"numbers": ["1"], "target": 1},
    ],
)  # fmt: skip
def test_rows_without_numbers_or_target_are_refused_before_the_run(columns: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="the expression reward needs"):
        feedback("expression").check([Task(prompt="p", columns=columns)])
    assert kinds("expression", columns, ["1"]) == ["no_key"]


HOSTILE = {
    "(" * 500_000: "too_deep",
    "(" * 90 + "1" + ")" * 90: "wrong_numbers",
    "9" * 900_000: "number_too_large",
    "1+" * 400_000 + "1": "wrong_numbers",
    "-" * 900_000: "too_deep",
    "1=" + "1+" * 400_000: "wrong_numbers",
    "3" + " " * 900_000 + "+5+2": "wrong",
    "9**9**9**9": "broken_expression",
    "(3+5)*2=" + "9" * 900_000: "number_too_large",
    "(3+5)*2" + "=16" * 300_000: "broken_expression",
    "٣+5": "broken_expression",
}


@pytest.mark.parametrize(("text", "kind"), HOSTILE.items(), ids=lambda value: value[:12])
def test_hostile_texts_are_named_and_cost_no_more_than_their_length(text: str, kind: str) -> None:
    assert kinds("expression", ROW, [text]) == [kind]


def test_a_value_that_is_too_long_to_print_is_not_printed() -> None:
    row = {"numbers": [10**15 - 1] * 100, "target": 1}
    [verdict] = judged("expression", row, ["*".join([str(10**15 - 1)] * 100)])
    assert verdict.reason == "expression: wrong: the expression comes to a very large number, not 1"


EXPRESSIONS = st.recursive(
    st.integers(0, 99).map(str),
    lambda inner: st.builds(
        lambda a, sign, one, b: f"({a}{sign}{one}{b})",
        inner,
        st.sampled_from("+-*/"),
        st.sampled_from(["", "-", "+-"]),
        inner,
    ),
    max_leaves=8,
)


def by_python(node: ast.expr) -> Fraction:
    """The value by Python's own parser."""
    if isinstance(node, ast.Constant):
        return Fraction(node.value)  # type: ignore[arg-type]
    if isinstance(node, ast.UnaryOp):
        return by_python(node.operand) * (-1 if isinstance(node.op, ast.USub) else 1)
    assert isinstance(node, ast.BinOp)
    left, right = by_python(node.left), by_python(node.right)
    signs = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
    return signs[type(node.op)](left, right)


@given(EXPRESSIONS, st.sampled_from(["{}", "{}+2*3-4", "7-{}*2"]))
def test_the_value_is_that_of_pythons_own_grammar(inner: str, around: str) -> None:
    text = around.format(inner)
    tree = ast.parse(text, mode="eval").body
    numbers = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    try:
        expected = by_python(tree)
    except ZeroDivisionError:
        with pytest.raises(Unsound, match="divided by what comes to 0"):
            computed(text, numbers)  # type: ignore[arg-type]
        return
    assert computed(text, numbers) == expected  # type: ignore[arg-type]
