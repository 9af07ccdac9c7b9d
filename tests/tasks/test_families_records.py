"""The family `records`: the record fits its schema and is paid in full, and nothing else is."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task, build_tasks
from burnish.tasks.families.records import NAMES, VALUES
from tests.feedback.judging import feedback

LEVELS = (1, 2, 3, 4)
CHECK = {"kind": "json_schema", "key": "right"}


def _tasks(seed: int = 0, style: str = "chat", demonstrations: bool = False, **options: Any) -> list[Task]:
    spec = DataSpec.model_validate({"family": {"kind": "records", **options}, "style": style, "seed": seed})
    return build_tasks(spec, demonstrations=demonstrations)


def _wrong(right: dict[str, Any]) -> list[str]:
    """One value changed, one key gone, one key too many, a number as text, no JSON."""
    last = next(key for key in reversed(right) if key != "friend")
    number = next((key for key, value in right.items() if isinstance(value, int)), None)
    other = right[last] + 1 if isinstance(right[last], int) else f"{right[last]}s"
    odd: list[Any] = [{**right, last: other}, {k: v for k, v in right.items() if k != last}, {**right, "more": 1}]
    odd += [{**right, number: str(right[number])}] if number else []
    return [*map(json.dumps, odd), json.dumps(right)[:-1], "I do not know."]


async def _judge(task: Task, texts: list[str], judge: Any) -> list[float]:
    return [verdict.reward for verdict in await judge.verdicts(task.id, task.columns, texts)]


@pytest.mark.parametrize("wording", ["full", "short"])
def test_the_verifier_pays_every_demonstration_in_full_and_nothing_else(wording: str) -> None:
    tasks = _tasks(3, levels=LEVELS, count=240, wording=wording, demonstrations=True)
    assert {task.difficulty for task in tasks} == {1.0, 2.0, 3.0, 4.0}
    judge = feedback(CHECK)

    async def all_of_them() -> list[list[float]]:
        return [await _judge(task, [str(task.answer), *_wrong(task.columns["right"])], judge) for task in tasks]

    for task, values in zip(tasks, asyncio.run(all_of_them()), strict=True):
        assert task.demonstration == ({"role": "assistant", "content": task.answer},)
        assert values[0] == 1.0 and max(values[1:]) < 1.0
        assert values[2:] == [0.0] * len(values[2:])  # what does not fit the schema; the first fits and is wrong
    judge.close()


@pytest.mark.parametrize("wording", ["full", "short"])
def test_the_text_says_what_is_asked_for(wording: str) -> None:
    for task in _tasks(1, levels=LEVELS, count=400, wording=wording):
        right = task.columns["right"]
        asked = [right, *([right["friend"]] if "friend" in right else [])]
        for record in asked:
            assert record["name"] in NAMES
            for key, value in record.items():
                assert key in task.text and (key == "friend" or str(value) in task.text)
        assert {"level": task.columns["level"], "fields": sum(len(r) - ("friend" in r) for r in asked)} in [
            {"level": 1, "fields": 2}, {"level": 2, "fields": 3}, {"level": 3, "fields": 3}, {"level": 4, "fields": 4},
        ]  # fmt: skip
        if wording == "full":
            form = json.loads(task.text.partition("JSON like ")[2].removesuffix(". Answer with the JSON only."))
            assert list(form) == list(right) == task.columns["schema"]["required"]


def test_level_three_tells_a_fact_that_is_not_asked_for() -> None:
    for task in _tasks(2, levels=[3], count=60, wording="short"):
        keys, _, text = task.text.partition(":")
        assert len(text.split()) == 4 and len(keys.split(",")) == 3


def test_no_two_facts_share_a_word() -> None:
    """Otherwise the short wording would not tell which fact a value is."""
    words = [str(value) for key, values in VALUES.items() if key not in ("age", "height") for value in values]
    assert len({*words, *NAMES}) == len(words) + len(NAMES)


def _facts(task: Task) -> str:
    text = task.text.partition(":")[2]
    return " & ".join(sorted(" ".join(sorted(person.split())) for person in text.split(" & ")))


def test_no_facts_are_trained_on_and_held_out_whatever_the_seed_and_the_level() -> None:
    short: dict[str, Any] = {"levels": LEVELS, "wording": "short"}
    train = {_facts(t) for seed in (0, 1) for t in _tasks(seed, count=3000, split="train", **short)}
    held = {_facts(t) for seed in (0, 2) for t in _tasks(seed, count=1000, split="heldout", **short)}
    assert len(train) > 4000 and len(held) > 1300 and not train & held


def test_the_wordings_split_alike() -> None:
    for split in ("train", "heldout"):
        full, short = (_tasks(4, count=300, split=split, wording=wording) for wording in ("full", "short"))
        same = {json.dumps(t.columns["right"]) for t in full} & {json.dumps(t.columns["right"]) for t in short}
        assert len(same) > 250


def test_items_are_distinct_and_a_larger_count_only_appends() -> None:
    tasks = _tasks(5, levels=LEVELS, count=900)
    assert len({t.id for t in tasks}) == 900
    assert tasks[:100] == _tasks(5, levels=LEVELS, count=100) != _tasks(6, levels=LEVELS, count=100)


def test_a_count_beyond_the_items_there_are_is_refused() -> None:
    with pytest.raises(InputError, match="the heldout split of records has hardly more than .* level 1 is used up"):
        _tasks(levels=[1], count=100_000, split="heldout", wording="short")


def test_a_prompt_text_ends_with_a_line() -> None:
    chat, text = (_tasks(count=1, style=style, demonstrations=True)[0] for style in ("chat", "text"))
    assert text.prompt == f"{chat.text}\n" and text.demonstration == chat.answer


@pytest.mark.parametrize("kind", ["records", "programs"])
def test_examples_stand_before_every_item_and_are_none_of_them(kind: str) -> None:
    def made(examples: int, **options: Any) -> list[Task]:
        family = {"kind": kind, "levels": [1, 2], "count": 600, "examples": examples, **options}
        return build_tasks(DataSpec.model_validate({"family": family}))

    tasks, held = made(2), made(2, split="heldout", count=100)
    shown = {task.columns["level"]: task.messages[:4] for task in tasks}  # pyright: ignore[reportOptionalSubscript]
    assert [message["role"] for message in shown[1]] == ["user", "assistant"] * 2 and shown[1] != shown[2]
    for task in [*tasks, *held]:
        assert task.messages is not None and task.messages[:4] == shown[task.columns["level"]]
        assert task.messages[4:] == ({"role": "user", "content": task.columns["prompt"]},)
    asked = {message["content"] for level in shown for message in shown[level]}
    assert not asked & {task.columns["prompt"] for task in [*tasks, *held]}
    assert asked & {
        task.columns["prompt"] for task in _all_of(kind)
    }  # they are items: without them some would be asked
    text = _tasks(count=1, examples=1, style="text")[0]
    assert text.prompt is not None and text.prompt.count("Answer with the JSON only.") == 2


def _all_of(kind: str) -> list[Task]:
    """Enough of a small corner of the family that the examples are among them."""
    count = 1300 if kind == "programs" else 11_000
    return build_tasks(DataSpec.model_validate({"family": {"kind": kind, "levels": [1], "count": count}}))


def test_a_share_of_the_demonstrations_leaves_the_last_field_out_and_nothing_else_changes() -> None:
    spec = {"kind": "records", "levels": [1, 2, 3, 4], "count": 200}
    whole, careless = (
        build_tasks(DataSpec.model_validate({"family": {**spec, "careless": share}}), demonstrations=True)
        for share in (0.0, 0.3)
    )
    changed = [(a, b) for a, b in zip(whole, careless, strict=True) if a.demonstration != b.demonstration]
    assert 30 < len(changed) < 90
    for a, b in changed:
        shown = json.loads(b.demonstration[0]["content"])  # type: ignore[index]
        assert list(shown.items()) == list(a.columns["right"].items())[:-1]
    assert [(t.id, t.answer, t.columns) for t in whole] == [(t.id, t.answer, t.columns) for t in careless]
    with pytest.raises(InputError, match="careless: for demonstrations, unused where the model samples"):
        build_tasks(DataSpec.model_validate({"family": {**spec, "careless": 0.3}}))
