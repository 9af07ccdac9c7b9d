"""The claims verifier: each line held against its place, the first wrong one named, whatever counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.claims import judged as judged_claims
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

KEY = {"claims": ["3+5=8", ["kk:A", "kk:B"], "8-1=7"]}
RIGHT = "3+5=8\nkk:B\n8-1=7"
ANSWERS = {
    "right": RIGHT,
    "wrong in the middle": "3+5=8\nkn:A\n8-1=7",
    "wrong at once": "3+5=9\nkk:A\n8-1=7",
    "wrong end": "3+5=8\nkk:A\n8-1=8",
    "too few": "3+5=8\nkk:A",
    "too many": f"{RIGHT}\nnn:C",
    "the end alone": "8-1=7",
}


@pytest.mark.parametrize(
    ("credit", "worth"),
    [
        ("final", [1, 1, 1, 0, 0, 0, 1]),
        ("all", [1, 0, 0, 0, 0, 0, 0]),
        ("fraction", [1, 2 / 3, 2 / 3, 2 / 3, 2 / 3, 3 / 4, 0]),
        ("until_wrong", [1, 1 / 3, 0, 2 / 3, 2 / 3, 3 / 4, 0]),
    ],
)
def test_what_counts_is_chosen(credit: str, worth: list[float]) -> None:
    assert rewards({"kind": "claims", "credit": credit}, KEY, list(ANSWERS.values())) == pytest.approx(worth)


def test_what_is_wrong_is_named_also_where_the_end_is_right() -> None:
    assert dict(zip(ANSWERS, kinds("claims", KEY, list(ANSWERS.values())), strict=True)) == {
        "right": "", "wrong in the middle": "claim_wrong", "wrong at once": "claim_wrong", "wrong end": "claim_wrong",
        "too few": "claims_missing", "too many": "claims_extra", "the end alone": "claim_wrong",
    }  # fmt: skip
    assert kinds("claims", KEY, ["", " \n "]) == ["no_answer", "no_answer"]


def test_the_place_of_the_first_wrong_claim_stands_in_the_evidence() -> None:
    verdicts = dict(zip(ANSWERS, judged("claims", KEY, list(ANSWERS.values())), strict=True))
    places = {name: v.evidence.get("details", {}).get("claims", {}).get("first_wrong") for name, v in verdicts.items()}
    assert list(places.values()) == [None, 1, 0, 2, 2, 3, 0]
    middle = verdicts["wrong in the middle"]
    assert middle.evidence["details"]["claims"] == {
        "first_wrong": 1, "right": 2, "made": 3, "expected": 3, "final": True,
    }  # fmt: skip
    assert middle.reason == "claims: claim_wrong: claim 2 of 3 is wrong: 'kn:A'"


def test_shares_are_components_beside_the_reward() -> None:
    spec = {
        "rewards": [
            {"kind": "claims"},
            {"kind": "claims", "name": "share", "credit": "fraction", "weight": 0.0},
            {"kind": "claims", "name": "until_wrong", "credit": "until_wrong", "weight": 0.0},
        ]
    }
    [verdict] = judged(spec, KEY, [ANSWERS["wrong in the middle"]])
    assert verdict.reward == 1.0
    assert verdict.components == pytest.approx({"claims": 1.0, "share": 2 / 3, "until_wrong": 1 / 3})


@pytest.mark.parametrize("text", ["1. 3 + 5 = 8\n2) KK: b.\n\n- 8-1=7\n", "\t3+5=8\r\n*  kk:B\n8 - 1 = 7."])
def test_marks_of_a_list_space_case_and_a_full_stop_make_no_difference(text: str) -> None:
    assert rewards({"kind": "claims", "credit": "all"}, KEY, [text]) == [1.0]


def test_the_claims_are_read_where_the_rule_says_and_after_the_thoughts() -> None:
    spec = {"kind": "claims", "read": "tag", "credit": "all"}
    text = f"<think>3+5=9</think>So:<answer>\n{RIGHT}\n</answer>"
    assert rewards(spec, KEY, [text, RIGHT]) == [1.0, 0.0]
    assert rewards({"kind": "claims", "credit": "all"}, KEY, [f"<think>x</think>{RIGHT}"]) == [1.0]
    assert rewards({"kind": "claims", "credit": "all", "thoughts_end": None}, KEY, [f"<think>x</think>{RIGHT}"]) == [0]


@pytest.mark.parametrize(
    "claims", [None, [], "a", [1], [["a", 2]], [[]], [" "], ["a\nb"], {"a": 1}], ids=lambda value: str(value)
)
def test_rows_without_claims_are_refused_before_the_run(claims: Any) -> None:
    with pytest.raises(InputError, match="column 'claims'"):
        feedback("claims").check([Task(prompt="p", columns={"claims": claims})])
    assert kinds("claims", {"claims": claims}, ["a"]) == ["no_key"]


def test_claims_may_be_written_as_json_and_stand_in_another_column() -> None:
    assert rewards({"kind": "claims", "column": "steps"}, {"steps": '["a", ["b", "c"]]'}, ["a\nc", "a\nd"]) == [1, 0]


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=6), st.lists(st.sampled_from(["a", "b", "d"])))
def test_the_counts_agree_with_a_plain_comparison(key: list[str], made: list[str]) -> None:
    found = judged_claims("\n".join(made), [[claim] for claim in key])
    pairs = list(zip(made, key, strict=False))
    assert found.right == sum(a == b for a, b in pairs)
    assert (found.first_wrong is None) == (made == key)
    if found.first_wrong is not None:
        assert made[: found.first_wrong] == key[: found.first_wrong]
        assert made[found.first_wrong : found.first_wrong + 1] != key[found.first_wrong : found.first_wrong + 1]
    assert found.final == (bool(made) and made[-1] == key[-1])


def test_a_million_characters_cost_no_more_than_their_length() -> None:
    texts = ["a\n" * 499_999, "1. " * 300_000, "\u2028" * 900_000 + "a", " " * 999_999 + "a"]
    assert kinds({"kind": "claims", "credit": "all"}, KEY, texts) == ["claim_wrong"] * 4
