"""The instructions verifier: for each of the 25 types texts that pass, fail and stand on the edge."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.feedback.checks.constraints import CONSTRAINTS, refusal
from burnish.feedback.checks.instructions import loose_forms
from burnish.feedback.checks.sentences import count_sentences
from burnish.feedback.workers.pool import Pool
from burnish.tasks import Task
from tests.feedback.judging import feedback, judged, kinds, rewards

LESS, LEAST = "less than", "at least"
GERMAN = "Heute ist ein schöner Tag, und wir gehen gemeinsam in den Wald, um Pilze zu suchen."
ENGLISH = "Today is a beautiful day, and we are going to the woods together to look for mushrooms."

TABLE: dict[str, list[tuple[dict[str, Any], list[str], list[str]]]] = {  # id -> arguments, texts that pass, that fail
    "keywords:existence": [
        ({"keywords": ["fox", "C++"]}, ["The FOX writes c++.", "foxes, C++"], ["fox", "c++", "f o x C++"]),
    ],
    "keywords:frequency": [
        ({"keyword": "a.b", "frequency": 2, "relation": LEAST}, ["a.b A.B", "a.ba.ba.b"], ["a.b", "axb axb"]),
        ({"keyword": "x", "frequency": 1, "relation": LESS}, ["none"], ["x"]),
    ],
    "keywords:forbidden_words": [
        ({"forbidden_words": ["cat", "c++"]}, ["concatenate", "cats", "c"], ["A Cat.", "I like C++!", "the cat"]),
    ],
    "keywords:letter_frequency": [
        ({"letter": "e", "let_frequency": 3, "let_relation": LEAST}, ["Eee", "e e e e"], ["ee", "xyz"]),
        ({"letter": "#", "let_frequency": 0, "let_relation": LEAST}, ["x"], []),
    ],
    "language:response_language": [
        ({"language": "de"}, [GERMAN], [ENGLISH, "12345 !!!"]),
        ({"language": "en"}, [ENGLISH], [GERMAN]),
    ],
    "length_constraints:number_sentences": [
        ({"num_sentences": 3, "relation": LEAST}, ["One. Two! Three?", "A b. C d. E f"], ["One. Dr. Who came.", "One"]),
        ({"num_sentences": 2, "relation": LESS}, ["It costs $3.50 today.", "..."], ["One. Two."]),
    ],
    "length_constraints:number_paragraphs": [
        ({"num_paragraphs": 2}, ["a\n***\nb", "***a***b***"], ["a", "a***b***c", "a\n\nb", "a******b"]),
    ],
    "length_constraints:number_words": [
        ({"num_words": 4, "relation": LEAST}, ["one two three four", "it's three words"], ["one two three"]),
        ({"num_words": 2, "relation": LESS}, ["one", "one!"], ["one two"]),
    ],
    "length_constraints:nth_paragraph_first_word": [
        (
            {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "However"},
            ["First.\n\nHowever, no.", "\n\nFirst.\n\n\n\nhowever"],
            ["However.\n\nNo.", "First.\n\nHowever.\n\nThird.", "However", "First.\n\nHoweverest"],
        ),
        ({"num_paragraphs": 1, "nth_paragraph": 2, "first_word": "x"}, [], ["x"]),
    ],
    "detectable_content:number_placeholders": [
        ({"num_placeholders": 2}, ["[name] lives at [address].", "[a][b][c]"], ["[name]", "(a) (b)", "[a\nb] [c]"]),
    ],
    "detectable_content:postscript": [
        ({"postscript_marker": "P.S."}, ["Bye.\nP.S. call me", "p. s. hi"], ["Bye.", "PS hi"]),
        ({"postscript_marker": "P.P.S"}, ["P.P.S. more", "p. p. s more"], ["P.S. call me"]),
    ],
    "detectable_format:number_bullet_lists": [
        (
            {"num_bullets": 2},
            ["* a\n* b", "text\n- a\n  - b\nend", "* a\n- b"],
            ["* a", "* a\n* b\n* c", "**a**\n**b**"],
        ),
    ],
    "detectable_format:constrained_response": [
        ({}, ["My answer is yes.", "Well. My answer is maybe. So."], ["yes", "My answer is yes", "my answer is no."]),
    ],
    "detectable_format:number_highlighted_sections": [
        ({"num_highlights": 2}, ["*one* and **two**", "*a* *b*"], ["*one*", "** **", "*a\nb* c"]),
    ],
    "detectable_format:multiple_sections": [
        (
            {"section_spliter": "Section", "num_sections": 2},
            ["Section 1\na\nSection 2\nb"],
            ["Section 1", "SECTION 1 SECTION 2"],
        ),
    ],
    "detectable_format:json_format": [
        (
            {},
            ['{"a": 1}', '```json\n{"a": [1]}\n```', "```\n[]\n```", '```json{"a": 1}```'],
            ["7", '"text"', "{a: 1}", 'Sure: {"a": 1}', "{"],
        ),
    ],
    "detectable_format:title": [
        ({}, ["<<Ode>>\ntext", "see <<a>> and <<b>>", "< <<x>> >"], ["<<>>", "<< >>", "<Ode>", "<<Ode\n>>", ">> <<"]),
    ],
    "combination:two_responses": [
        (
            {},
            ["one******two", "******\none\n******\ntwo"],
            ["one", "same******same", "a******b******c", "a****** ******b"],
        ),
    ],
    "combination:repeat_prompt": [
        (
            {"prompt_to_repeat": "Write a poem."},
            ["Write a poem. Roses ...", " write A POEM."],
            ["Roses", "Write a poem"],
        ),
    ],
    "startend:end_checker": [
        (
            {"end_phrase": "Is there anything else?"},
            ['So. is there anything ELSE?"\n'],
            ["Is there anything else? Yes", "x"],
        ),
    ],
    "startend:quotation": [({}, ['"all of it"', ' "a"\n'], ['"', "'a'", '"a" b', "“a”"])],
    "change_case:capital_word_frequency": [
        ({"capital_frequency": 2, "capital_relation": LEAST}, ["NO and YES", "A B"], ["No NO", "none"]),
        ({"capital_frequency": 1, "capital_relation": LESS}, ["none here", "12"], ["ONE here"]),
        ({"capital_frequency": 2, "capital_relation": LESS}, ["WELL-KNOWN", "the U.S. of old"], ["WELL KNOWN"]),
    ],
    "change_case:english_capital": [({}, ["ALL OF IT, 2 TIMES!"], ["All", "123"])],
    "change_case:english_lowercase": [({}, ["all of it, 2 times!"], ["All", "123"])],
    "punctuation:no_comma": [({}, ["no; none.", "、"], ["a, b"])],
}


def ask(id: str, arguments: dict[str, Any], text: str) -> bool:
    assert refusal(id, arguments) == ""
    return CONSTRAINTS[id](text, **arguments)


def test_every_check_there_is_has_a_table_of_its_own() -> None:
    assert set(TABLE) == set(CONSTRAINTS) and len(CONSTRAINTS) == 25


@pytest.mark.parametrize("id", TABLE)
def test_a_check_passes_what_it_should_and_nothing_else(id: str) -> None:
    for arguments, passing, failing in TABLE[id]:
        assert [text for text in passing if not ask(id, arguments, text)] == []
        assert [text for text in failing if ask(id, arguments, text)] == []


ROW = {
    "instruction_id_list": ["punctuation:no_comma", "startend:end_checker", "keywords:letter_frequency"],
    "kwargs": [
        {"end_phrase": None, "letter": None},  # tables write null in every other column
        {"end_phrase": "END"},
        {"letter": "z", "let_frequency": 0, "let_relation": LEAST},  # 0 is a value
    ],
}


def test_the_share_that_is_followed_or_all(pool: Pool) -> None:
    texts = ["all of it END", "a, b END", "a, b", ""]
    assert rewards("instructions", ROW, texts, pool) == pytest.approx([1.0, 2 / 3, 1 / 3, 0.0])
    assert rewards({"kind": "instructions", "credit": "all"}, ROW, texts, pool) == [1.0, 0.0, 0.0, 0.0]
    verdicts = judged("instructions", ROW, texts, pool)
    assert "not followed: punctuation:no_comma, startend:end_checker" in verdicts[2].reason
    assert [v.evidence.get("kinds", {}) for v in verdicts[2:]] == [
        {"instructions": "not_followed"}, {"instructions": "no_answer"},
    ]  # fmt: skip


def test_only_the_final_answer_is_checked(pool: Pool) -> None:
    texts = ["<think>first, second</think>done END", "<think>thinking END"]
    assert rewards("instructions", ROW, texts, pool) == [1.0, 0.0]


def test_loose_forgives_a_first_and_a_last_line_and_asterisks(pool: Pool) -> None:
    texts = [
        "Sure, here it is:\nall of it END",
        "all of it END\nAnything else, sir?",
        "Sure, so:\nit **END**\nOK, bye",
        "a, b",
    ]
    assert rewards({"kind": "instructions", "credit": "all"}, ROW, texts, pool) == [0.0] * 4
    # one form must hold for each instruction, not one for all of them, as in the original
    assert rewards({"kind": "instructions", "credit": "all", "loose": True}, ROW, texts, pool) == [1.0, 1.0, 1.0, 0.0]


@given(st.text(st.sampled_from("a*\n "), max_size=20))
def test_the_eight_loose_forms(text: str) -> None:
    forms = loose_forms(text)
    lines = text.split("\n")
    assert len(forms) == 8 and forms[0] == text and forms[4:] == [form.replace("*", "") for form in forms[:4]]
    assert forms[1] == "\n".join(lines[1:]).strip() and forms[3] == "\n".join(lines[1:-1]).strip()


@pytest.mark.parametrize("id", TABLE)
@pytest.mark.parametrize("unit", ["a ", "*", "[", "<<", "\n", "- ", "A.", "***", "``` ", '"', "p. "])
def test_long_repetitions_are_checked_at_once(id: str, unit: str) -> None:
    """A check that took quadratic time would not end within the time of a test."""
    if id != "language:response_language":  # langdetect looks at the beginning only, and takes its time
        assert ask(id, TABLE[id][0][0], unit * (300_000 // len(unit))) in (True, False)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0), ("...", 0), ("One", 1), ("One.", 1), ("One. two", 2), ("Really?! Yes.", 2), ("Wait... what?", 2),
        ("Mr. and Mrs. Smith came.", 1), ("See e.g. this.", 1), ("J. R. R. Tolkien wrote.", 1), ("A.B.C", 1),
        ("Pi is 3.14. Good.", 2), ("He said \"Stop.\" Then left.", 2),
    ],
)  # fmt: skip
def test_sentences_are_counted_as_a_person_would(text: str, count: int) -> None:
    assert count_sentences(text) == count


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"kwargs": []}, "needs ids of instructions in column 'instruction_id_list'"),
        ({"instruction_id_list": [], "kwargs": []}, "must hold a list of ids"),
        ({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]}, "1 instructions and 2 objects"),
        ({"instruction_id_list": ["punctuation:no_coma"], "kwargs": [{}]}, "no instruction 'punctuation:no_coma'"),
        (
            {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{"n": 1}]},
            "takes no 'n'; its arguments are: none",
        ),
        ({"instruction_id_list": ["startend:end_checker"], "kwargs": [None]}, "lacks 'end_phrase'"),
        ({"instruction_id_list": ["startend:end_checker"], "kwargs": [{"end_phrase": ""}]}, "is a text, not ''"),
        (
            {"instruction_id_list": ["detectable_format:number_bullet_lists"], "kwargs": [{"num_bullets": "3"}]},
            "num_bullets is a whole number, not '3'",
        ),
        (
            {
                "instruction_id_list": ["length_constraints:number_words"],
                "kwargs": [{"num_words": 3, "relation": "more than"}],
            },
            "relation is one of less than, at least, not 'more than'",
        ),
        (
            {"instruction_id_list": ["keywords:existence"], "kwargs": [{"keywords": "fox"}]},
            "is a list of texts, not 'fox'",
        ),
    ],
)
def test_rows_with_impossible_instructions_are_refused_before_the_run(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        feedback("instructions").check([Task(prompt="p", columns=columns)])
    assert kinds("instructions", columns, ["x"]) == ["no_key"]


def test_langdetect_is_asked_for_only_where_a_row_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    feedback("instructions").check([Task(prompt="p", columns=ROW)])
    columns = {"instruction_id_list": ["language:response_language"], "kwargs": [{"language": "de"}]}
    with pytest.raises(InputError, match="needs the library langdetect"):
        feedback("instructions").check([Task(prompt="p", columns=columns)])
