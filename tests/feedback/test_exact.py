"""The exact verifier: equal after the named normalisations, and in nothing else."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.texts import normalised
from burnish.tasks import Task
from tests.feedback.judging import feedback, kinds, rewards


@pytest.mark.parametrize(
    ("name", "right", "same", "other"),
    [
        ("space", "New York", " New\n  York ", "NewYork"),
        ("case", "straße", "STRASSE", "strase"),
        ("accents", "Orléans", "Orleans", "orleans"),
        ("punctuation", "Orléans", "Orléans!?", "Orléans+"),
        ("articles", "an  end", "the  end", "then  end"),
        ("width", "5 l", "\uff15\u00a0l", "5l"),
    ],
)
def test_each_normalisation_makes_its_own_difference_vanish(name: str, right: str, same: str, other: str) -> None:
    texts = [right, same, other]
    assert rewards({"kind": "exact", "normalise": [name]}, {"answer": right}, texts) == [1.0, 1.0, 0.0]
    assert rewards({"kind": "exact", "normalise": []}, {"answer": right}, texts) == [1.0, 0.0, 0.0]


def test_the_answer_is_read_where_the_rule_says_and_after_the_thoughts() -> None:
    texts = ["<think>Rome</think>so\nParis", "Paris\nRome", "<think>Paris", "Paris"]
    spec = {"kind": "exact", "read": "last_line"}
    assert rewards(spec, {"answer": "Paris"}, texts) == [1.0, 0.0, 0.0, 1.0]
    assert kinds(spec, {"answer": "Paris"}, texts) == ["", "wrong", "no_answer", ""]
    assert rewards({**spec, "thoughts_end": None}, {"answer": "<think>Paris"}, texts)[2] == 1.0


def test_a_row_may_have_several_right_texts_and_numbers() -> None:
    assert rewards("exact", {"answer": ["Paris", 12, 0.5]}, ["12", "Paris", "0.5", "Rome"]) == [1.0, 1.0, 1.0, 0.0]
    assert rewards({"kind": "exact", "column": "gold"}, {"gold": 7}, ["7"]) == [1.0]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"anwser": "a"}, {}, "needs the right text in column 'answer', which is not there; did you mean 'anwser'"),
        ({"answer": None}, {}, "which is null"),
        ({"answer": []}, {}, "compares with texts or numbers"),
        ({"answer": ["a", None]}, {}, "compares with texts or numbers"),
        ({"answer": True}, {}, "compares with texts or numbers"),
        ({"answer": " "}, {}, r"is empty after normalise \[space\]"),
        ({"answer": "!"}, {"normalise": ["punctuation"]}, r"empty after normalise \[punctuation\]"),
    ],
)
def test_rows_without_a_right_text_are_refused_before_the_run(columns: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback({"kind": "exact", **options}).check([Task(prompt="p", columns=columns)])
    assert kinds({"kind": "exact", **options}, columns, ["a", "b"]) == ["no_key", "no_key"]


@given(st.text(max_size=60))
def test_a_text_is_equal_to_itself_and_normalising_twice_changes_nothing(text: str) -> None:
    for name in ("case", "accents", "punctuation", "articles", "space"):
        once = normalised(text, [name])
        assert unicodedata.normalize("NFC", normalised(once, [name])) == unicodedata.normalize("NFC", once)
    assert text.strip() == "" or rewards("exact", {"answer": text}, [text]) == [1.0]
