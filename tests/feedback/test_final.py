"""Where the answer stands in a completion: each rule on texts as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.feedback.checks.final import Read, after_thoughts, read


@pytest.mark.parametrize(
    ("rule", "text", "answer"),
    [
        ("whole", " 12 \n", "12"),
        ("whole", " \n", None),
        ("last_line", "first\n\nlast line \n\n", "last line"),
        ("last_line", "only", "only"),
        ("boxed", r"\boxed{1} then \boxed{2}.", "2"),
        ("boxed", r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        ("boxed", r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        ("boxed", r"\fbox{7}", "7"),
        ("boxed", r"\boxed{\frac{1}{2}", None),
        ("boxed", r"\boxed{1} and then \boxed{2", None),  # the last one counts, and it is not closed
        ("boxed", "boxed 12", None),
        ("boxed", r"\boxed{}", None),
        ("tag", "<answer>1</answer> no: <answer> 2 </answer>", "2"),
        ("tag", "<answer>a < b</answer>", "a < b"),
        ("tag", "<answer>1", None),
        ("tag", "1</answer>", None),
        ("fenced", "```python\nx = 1\n```\n\n```\ny = 2\n```", "y = 2"),
        ("fenced", "~~~\na\n~~~", "a"),
        ("fenced", "````md\n```\ninner\n```\n````", "```\ninner\n```"),
        ("fenced", "```\nfirst\n```\n```\nnever closed", "first"),
        ("fenced", "a ```b``` c", None),
        ("fenced", "```\n\n```", None),
        ("stated", "The answer is 12.", "12"),
        ("stated", "Answer: 1\nso the **final answer is:** **12**.\nbecause", "12"),
        ("stated", "**Answer:** (B)", "(B)"),
        ("stated", "ANSWER:\n42", "42"),
        ("stated", "answer = 4", "4"),
        ("stated", "My answers: 3", None),
        ("stated", "I answered 3", None),
        ("stated", "The answer is", None),
    ],
)
def test_a_rule_finds_the_answer(rule: Read, text: str, answer: str | None) -> None:
    assert read(text, rule) == answer


@pytest.mark.parametrize(
    ("text", "end", "rest"),
    [
        ("<think>1</think>2", "</think>", "2"),
        ("<think>1</think>2</think>3", "</think>", "3"),
        ("<think>never ends 12", "</think>", ""),
        ("no thoughts", "</think>", "no thoughts"),
        ("12 <|answer|> 13", "<|answer|>", " 13"),
        ("<think>1</think>2", None, "<think>1</think>2"),
    ],
)
def test_only_what_follows_the_thoughts_is_judged(text: str, end: str | None, rest: str) -> None:
    assert after_thoughts(text, end) == rest


RULES = ["whole", "last_line", "boxed", "tag", "fenced", "stated"]


@given(st.text(st.sampled_from("a1{}\\<>/`~\n .:*boxedanswr"), max_size=80), st.sampled_from(RULES))
def test_what_is_found_is_a_part_of_the_text_without_space_around_it(text: str, rule: Read) -> None:
    found = read(text, rule)
    assert found is None or (found and found in text and found == found.strip())


@given(st.text(st.sampled_from("a1 .\n"), min_size=1, max_size=30).filter(str.strip))
def test_whatever_stands_in_a_box_or_a_tag_is_found(inside: str) -> None:
    assert read(rf"x \boxed{{{inside}}} y", "boxed") == inside.strip()
    assert read(f"x <answer>{inside}</answer> y", "tag") == inside.strip()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("unit", ["\\boxed{", "<answer>", "```\n", "`", "answer is ", "{", " ", "answer is\n", "\n"])
def test_long_repetitions_are_read_at_once(rule: Read, unit: str) -> None:
    """A rule that took quadratic time would not end within the time of a test."""
    found = read(unit * (1_000_000 // len(unit)), rule)
    assert found is None or len(found) <= 1_000_000
