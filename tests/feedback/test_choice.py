"""The choice verifier: which option a text names, by each rule."""

from __future__ import annotations

from typing import Any

import pytest

from burnish.errors import InputError
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

ROW = {"options": ["Paris", "Rome", "3/4", "It is B."], "answer": "B"}

ANY = [  # text, reward, kind
    ("B", 1.0, ""),
    ("b", 1.0, ""),
    ("(B)", 1.0, ""),
    ("[B]", 1.0, ""),
    ("B.", 1.0, ""),
    ("**B**", 1.0, ""),
    ("B) Rome", 1.0, ""),
    ("B: Rome", 1.0, ""),
    ("Rome", 1.0, ""),
    ("rome.", 1.0, ""),
    (r"\boxed{B}", 1.0, ""),
    (r"\boxed{\text{B}}", 1.0, ""),
    (r"\boxed{\text{(B)}}", 1.0, ""),
    (r"$\boxed{B}$, not A", 1.0, ""),
    (r"\boxed{Rome}", 1.0, ""),
    ("The answer is B.", 1.0, ""),
    ("The answer is (B) Rome.", 1.0, ""),
    ("**Answer:** B", 1.0, ""),
    ("The answer is B because A is wrong", 1.0, ""),
    ("Answer: A\nNo. Answer: B, since Rome", 1.0, ""),
    ("A is in France.\nSo it must be\nB", 1.0, ""),
    ("<think>A</think>B", 1.0, ""),
    ("A", 0.0, "wrong"),
    ("3/4", 0.0, "wrong"),
    ("It is B.", 0.0, "wrong"),  # the text of option D
    (r"\boxed{A} or B", 0.0, "wrong"),
    ("A or B", 0.0, "several_answers"),
    ("A, B", 0.0, "several_answers"),
    ("The answer is A and B.", 0.0, "several_answers"),
    (r"\boxed{B/C}", 0.0, "several_answers"),
    ("E", 0.0, "no_answer"),
    ("Berlin", 0.0, "no_answer"),
    ("A) Paris\nB) Rome\nC) 3/4\nD) who knows which of them it is", 0.0, "wrong"),  # the last line introduces D
    ("It could be Rome, or Paris", 0.0, "no_answer"),
    ("", 0.0, "no_answer"),
    ("<think>B", 0.0, "no_answer"),
]


def test_the_option_that_a_text_names(pool: Pool) -> None:
    texts, expected, names = zip(*ANY, strict=True)
    verdicts = judged("choice", ROW, texts, pool)
    found = [(v.reward, v.evidence.get("kinds", {}).get("choice", "")) for v in verdicts]
    assert found == list(zip(expected, names, strict=True))


@pytest.mark.parametrize(
    ("rule", "right", "unread"),
    [
        ("boxed", r"\boxed{B}", ["B", "The answer is B.", r"\boxed{B"]),
        ("stated", "The answer is B.", ["B", r"\boxed{B}"]),
        ("bare", "B", [r"\boxed{B}", "The answer is B."]),
        ("bare", "so\nB", ["so B", "B\nso"]),
    ],
)
def test_a_rule_reads_its_own_place_only(pool: Pool, rule: str, right: str, unread: list[str]) -> None:
    assert rewards({"kind": "choice", "rule": rule}, ROW, [right], pool) == [1.0]
    assert kinds({"kind": "choice", "rule": rule}, ROW, unread, pool) == ["no_answer"] * len(unread)


def test_a_pattern_of_the_users_takes_the_last_match(pool: Pool) -> None:
    spec = {"kind": "choice", "rule": "pattern", "pattern": r"Option (\w)"}
    texts = ["Option A, no: Option B", "Option B, no: Option A", "B"]
    assert rewards(spec, ROW, texts, pool) == [1.0, 0.0, 0.0]
    assert rewards({**spec, "pattern": "[AB]$"}, ROW, ["A B", "B A"], pool) == [1.0, 0.0]


def test_a_pattern_that_is_a_bomb_for_an_answer_scores_it_0(pool: Pool) -> None:
    spec = {"kind": "choice", "rule": "pattern", "pattern": "^(B+)+$", "time_limit": 0.5}
    assert kinds(spec, ROW, ["B" * 60 + "!", "B"], pool) == ["time_limit", ""]


@pytest.mark.parametrize(
    ("columns", "right", "wrong"),
    [
        ({"options": ["x", "y"], "answer": "b"}, "y", "x"),
        ({"options": ["x", "y"], "answer": 1}, "B", "A"),
        ({"options": ["x", "y"], "answer": "y"}, "B", "A"),
        ({"options": {"1": "x", "2": "y"}, "answer": "2"}, "2", "1"),
        ({"options": {"1": "x", "2": "y"}, "answer": 2}, "y", "x"),
        ({"options": {"label": ["C", "D"], "text": ["x", "y"]}, "answer": "D"}, "(D)", "B"),
        ({"options": '["x", "y"]', "answer": "b"}, "y", "A"),
        ({"options": [1, 2], "answer": "A"}, "1", "2"),
    ],
)
def test_options_and_answers_as_data_sets_write_them(pool: Pool, columns: Any, right: str, wrong: str) -> None:
    feedback("choice").check([Task(prompt="p", columns=columns)])
    assert rewards("choice", columns, [right, wrong], pool) == [1.0, 0.0]


def test_without_options_and_without_their_texts(pool: Pool) -> None:
    assert rewards({"kind": "choice", "options": None}, {"answer": "K"}, ["K", "B"], pool) == [1.0, 0.0]
    assert kinds({"kind": "choice", "option_text": False}, ROW, ["Rome", "B"], pool) == ["no_answer", ""]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"answer": "A"}, "needs the options in column 'options', which is not there"),
        ({"options": ["x", "y"]}, "needs the right option in column 'answer'"),
        ({"options": ["x"], "answer": "A"}, "must hold 2 to 26 options"),
        ({"options": ["x", ["y"]], "answer": "A"}, "must hold 2 to 26 options"),
        ({"options": ["x", "y"], "answer": "C"}, "holds 'C', which is none of the options; they are: A, B"),
        ({"options": ["x", "y"], "answer": 2}, "holds '2', which is none of the options"),
        ({"options": ["x", "x"], "answer": "x"}, "holds 'x', which is none of the options"),
        ({"options": ["x", "y"], "answer": True}, "none of the options"),
    ],
)
def test_rows_without_a_right_option_are_refused_before_the_run(columns: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback("choice").check([Task(prompt="p", columns=columns)])


DIGITS = {"options": {"label": ["1", "2", "3", "4"], "text": ["2", "3", "4", "5"]}, "answer": "3"}


@pytest.mark.parametrize(
    ("row", "text", "reward"),
    [
        ({"options": ["B", "A"], "answer": "A"}, "A", 1.0),  # a label goes before an option whose text is one
        ({"options": ["B", "A"], "answer": "A"}, "B", 0.0),
        (DIGITS, "3", 1.0),
        (DIGITS, "The answer is 3.", 1.0),
        (ROW, "The correct answer is option B", 1.0),
        (ROW, "Option (B)", 1.0),
        (ROW, "Choice B: Rome", 1.0),
        (ROW, "The answer is \uff22", 1.0),  # a full-width B
        (ROW, "option A", 0.0),
        ({"options": ["option one", "choice two"], "answer": "A"}, "option one", 1.0),
    ],
)
def test_labels_go_before_texts_and_may_be_introduced(
    row: dict[str, Any], text: str, reward: float, pool: Pool
) -> None:
    assert rewards("choice", row, [text], pool) == [reward]
