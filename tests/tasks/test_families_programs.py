"""The family `programs`: the reference program passes its hidden tests and nothing cheaper does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from burnish.errors import InputError
from burnish.tasks import DataSpec, Task, build_tasks
from burnish.tasks.families.steps import KINDS
from tests.feedback.judging import kinds, rewards

LEVELS = (1, 2, 3, 4)
READ = {"full": "fenced", "short": "whole"}


def _tasks(seed: int = 0, style: str = "chat", demonstrations: bool = False, **options: Any) -> list[Task]:
    spec = DataSpec.model_validate({"family": {"kind": "programs", **options}, "style": style, "seed": seed})
    return build_tasks(spec, demonstrations=demonstrations)


def _code(task: Task) -> str:
    return str(task.answer).removeprefix("```python\n").removesuffix("\n```")


def _results(task: Task, code: str) -> list[Any]:
    space: dict[str, Any] = {}
    exec(code, space)
    return [space["f"](*arguments) for arguments in task.columns["tests"]["inputs"]]


@pytest.mark.parametrize("wording", ["full", "short"])
def test_every_reference_program_gives_what_its_tests_expect(wording: str) -> None:
    """The Python text and what is computed for the tests are written down apart."""
    tasks = _tasks(3, levels=LEVELS, count=1200, wording=wording)
    assert {task.difficulty for task in tasks} == {1.0, 2.0, 3.0, 4.0}
    for task in tasks:
        assert _results(task, _code(task)) == task.columns["tests"]["outputs"]
    steps = {what for task in tasks for what in task.text.split(":", 1)[1].split(",")}
    assert wording == "full" or len(steps) > sum(map(len, KINDS.values()))


@pytest.mark.parametrize("wording", ["full", "short"])
def test_the_code_verifier_pays_the_demonstration_and_no_cheaper_program(wording: str) -> None:
    tasks = _tasks(7, levels=LEVELS, count=16, wording=wording, demonstrations=True)
    for task, other in zip(tasks, [*tasks[4:], *tasks[:4]], strict=True):
        assert task.demonstration == ({"role": "assistant", "content": task.answer},)
        argument = {"number": "n", "pair": "a, b", "text": "s", "list": "x"}[task.columns["takes"]]
        constant = f"def f(*arguments):\n    return {task.columns['tests']['outputs'][0]!r}"
        identity = f"def f({argument}):\n    return {argument[0]}"
        wrong = [f"```python\n{code}\n```" if wording == "full" else code for code in (constant, identity)]
        texts = [str(task.answer), *wrong, str(other.answer), "f"]
        assert rewards({"kind": "code", "read": READ[wording]}, task.columns, texts) == [1.0, 0.0, 0.0, 0.0, 0.0]


def test_no_constant_and_no_argument_passes_for_any_item() -> None:
    for task in _tasks(1, levels=LEVELS, count=2000):
        tests = task.columns["tests"]
        assert len({json.dumps(output) for output in tests["outputs"]}) > 1
        for arguments in zip(*tests["inputs"], strict=True):
            assert list(arguments) != tests["outputs"]


def _does(task: Task) -> str:
    return json.dumps([task.columns["takes"], task.columns["tests"]["outputs"]])


def test_no_function_is_trained_on_and_held_out_whatever_the_seed_the_level_and_the_wording() -> None:
    train = {_does(t) for seed in (0, 1) for t in _tasks(seed, levels=LEVELS, count=2000, split="train")}
    held = {
        _does(t)
        for seed in (0, 2)
        for t in _tasks(seed, levels=LEVELS[::-1], count=600, split="heldout", wording="short")
    }
    assert len(train) > 2500 and len(held) > 800 and not train & held


def test_items_are_distinct_repeat_and_a_larger_count_only_appends() -> None:
    tasks = _tasks(5, levels=[1, 2], count=900)
    assert len({t.id for t in tasks}) == len({_does(t) for t in tasks}) == 900
    assert tasks[:100] == _tasks(5, levels=[1, 2], count=100) != _tasks(6, levels=[1, 2], count=100)
    assert [t.columns["level"] for t in tasks[:4]] == [1, 2, 1, 2]


def test_a_count_beyond_the_items_there_are_is_refused() -> None:
    with pytest.raises(
        InputError, match="count: 5000 items wanted, but the heldout split of programs has hardly more"
    ) as e:
        _tasks(levels=[1], count=5000, split="heldout", takes=["number"])
    assert "level 1 is used up; lower count, or take other levels" in str(e.value)


def test_the_wordings_and_what_a_function_takes() -> None:
    full, short = _tasks(1, count=40, takes=["text"]), _tasks(1, count=40, takes=["text"], wording="short")
    assert [_does(t) for t in full] == [_does(t) for t in short]
    assert all("a text s" in t.text and t.text.endswith("Answer with one block of Python code.") for t in full)
    assert all(t.text.startswith("f(s):") and len(t.text) < 24 and t.answer.startswith("f=lambda s:") for t in short)  # pyright: ignore[reportOptionalMemberAccess]
    text = _tasks(1, count=1, takes=["text"], wording="short", style="text", demonstrations=True)[0]
    assert text.prompt == f"{short[0].text}\n" and text.demonstration == short[0].answer
    assert not any("tests" in t.text or json.dumps(t.columns["tests"]["outputs"]) in t.text for t in full)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"levels": [5]}, "levels run from 1 to 4"),
        ({"levels": [1, 1]}, "same one twice"),
        ({"takes": ["text", "text"]}, "takes names the same one twice"),
        ({"takes": ["set"]}, "takes"),
        ({"digits": [2]}, "digits"),
        ({"count": 0}, "count"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _tasks(**options)


def test_an_answer_that_holds_no_program_is_named() -> None:
    task = _tasks(count=1)[0]
    assert kinds({"kind": "code"}, task.columns, ["I do not know.", "```python\ndef g(): pass\n```"]) == [
        "no_code", "tests_failed",
    ]  # fmt: skip
