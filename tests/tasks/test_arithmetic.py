"""Arithmetic: exact answers, and no operand pair shared between training and what is held out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task, build_tasks

OPERATIONS = st.lists(st.sampled_from(["+", "-", "*"]), min_size=1, max_size=3, unique=True)
DIGITS = st.lists(st.integers(1, 3), min_size=1, max_size=3, unique=True)


def _tasks(seed: int = 0, style: str = "chat", demonstrations: bool = False, **options: object) -> list[Task]:
    spec = DataSpec.model_validate({"family": {"kind": "arithmetic", **options}, "style": style, "seed": seed})
    return build_tasks(spec, demonstrations=demonstrations)


def _pairs(tasks: list[Task]) -> set[tuple[int, int]]:
    return {(min(t.columns["a"], t.columns["b"]), max(t.columns["a"], t.columns["b"])) for t in tasks}


@settings(max_examples=25, deadline=None)
@given(OPERATIONS, OPERATIONS, DIGITS, st.integers(0, 2**40), st.integers(0, 2**40), st.booleans())
def test_train_and_heldout_share_no_operand_pair_for_any_seed_and_operation(
    train: list[str], heldout: list[str], digits: list[int], seed: int, other: int, negative: bool
) -> None:
    digits = [d for d in digits if d > 1] or [2]
    a = _tasks(seed, operations=train, digits=digits, count=400, split="train", negative=negative and "-" in train)
    b = _tasks(
        other, operations=heldout, digits=digits, count=400, split="heldout", negative=negative and "-" in heldout
    )
    assert not _pairs(a) & _pairs(b)


def test_every_item_is_right_distinct_and_of_the_digits_asked_for() -> None:
    tasks = _tasks(3, operations=["+", "-", "*"], digits=[2, 3], count=600)
    assert len(tasks) == len({t.id for t in tasks}) == 600
    seen = set()
    for task in tasks:
        c = task.columns
        assert len(str(c["a"])) == len(str(c["b"])) == c["digits"] == task.difficulty
        assert task.answer == c["answer"] == str(eval(f"{c['a']}{c['operation']}{c['b']}"))
        assert int(task.answer) >= 0
        seen.add((c["operation"], min(c["a"], c["b"]), max(c["a"], c["b"])))
    assert len(seen) == 600
    assert {t.columns["digits"] for t in tasks} == {2, 3} and {t.columns["operation"] for t in tasks} == {"+", "-", "*"}


def test_the_heldout_share_is_a_fifth() -> None:
    with pytest.raises(InputError, match="heldout split .* holds only") as error:
        _tasks(digits=[2], count=4095, split="heldout")
    held = int(str(error.value).split("holds only ")[1].split(";")[0])
    assert 0.17 < held / 4095 < 0.23  # of 90 * 91 / 2 unordered pairs
    assert len(_tasks(digits=[2], count=held, split="heldout")) == held
    assert len(_tasks(digits=[2], count=4095 - held, split="train")) == 4095 - held


def test_a_larger_count_only_appends() -> None:
    assert _tasks(5, count=3000)[:200] == _tasks(5, count=200)
    assert _tasks(5, count=200) != _tasks(6, count=200)


def test_chat_and_text_phrasing() -> None:
    chat, text = _tasks(count=1)[0], _tasks(count=1, style="text", demonstrations=True)[0]
    a, b = chat.columns["a"], chat.columns["b"]
    assert chat.messages == ({"role": "user", "content": f"What is {a} + {b}? Answer with the number only."},)
    assert text.prompt == f"{a}+{b}=" and text.demonstration == str(a + b)
    own = _tasks(count=1, question="{a}{op}{b} is?")[0]
    assert own.text == f"{a}+{b} is?"


def test_a_difference_may_be_negative_when_asked() -> None:
    tasks = _tasks(operations=["-"], digits=[1], count=60, negative=True)
    assert any(int(t.answer or 0) < 0 for t in tasks)
    assert any("-" in (t.answer or "") for t in tasks)


def test_the_run_seed_is_used_where_the_spec_has_none() -> None:
    spec = DataSpec.model_validate({"family": "arithmetic"})
    assert build_tasks(spec, seed=5) == build_tasks(spec.model_copy(update={"seed": 5}), seed=9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"digits": [0]}, "between 1 and 9"),
        ({"digits": [2, 2]}, "same value twice"),
        ({"operations": ["/"]}, "operations"),
        ({"question": "what is {a}?"}, r"\{op\}, \{b\} is absent"),
        ({"cuont": 3}, "cuont"),
        ({"count": 0}, "count"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _tasks(**options)
