"""The evaluator: what it was asked, what came back, judged item by item; compared only like with like."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.feedback.checking import Check
from burnish.feedback.numbers import only_number
from burnish.methods.recipe import EvaluationSpec
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.studies import Evaluation, compare, evaluate, greedy, wilson_interval
from burnish.studies.evaluation import Judgement
from burnish.studies.judging import judged_by
from burnish.tasks import DataSpec, Task, build_tasks

STOP = 0
PARAMS = greedy(8, frozenset({STOP}))


class CharacterSampler:
    """Answers sums, characters being tokens: right, or with an error for the share of tasks it does not know."""

    name, version = "toy", 3

    def __init__(self, knows: float, words: str = "") -> None:
        self.knows, self.words, self.calls, self.released = knows, words, [], []

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
        **_: Any,
    ) -> list[Completion]:
        self.calls.append((list(prompt), n, seed, task))
        await asyncio.sleep(0)
        a, b = "".join(map(chr, prompt)).rstrip("=").split("+")
        value = int(a) + int(b) + (task % 1000 >= 1000 * self.knows)
        ids = np.array([*map(ord, f"{self.words}{value}"), STOP][: params.max_tokens], dtype=np.int32)
        finish = "stop" if ids[-1] == STOP else "length"
        zeros = np.zeros(len(ids), dtype=np.float32)
        return [Completion(ids, zeros, zeros.astype(np.int32), finish, session=i) for i in range(n)]

    async def extend(self, session: Any, tokens: Sequence[int], params: SamplingParams, **_: Any) -> list[Completion]:
        raise NotImplementedError

    def publish(self, version: int, weights: Mapping[str, Any] | None = None) -> None:
        self.version = version

    def cancel(self, task: int) -> None:
        raise NotImplementedError

    def release(self, session: Any) -> None:
        self.released.append(session)


def _tasks(count: int = 200) -> list[Task]:
    family = {"kind": "arithmetic", "count": count, "split": "heldout"}
    return build_tasks(DataSpec.model_validate({"family": family, "style": "text"}))


def _text(ids: Sequence[int]) -> str:
    return "".join(chr(i) for i in ids if i != STOP)


async def _numbers(task: Task, texts: list[str]) -> list[Judgement]:
    return [Judgement(text.split()[-1] == task.answer, only_number(text) is not None) for text in texts]


def _evaluate(sampler: CharacterSampler, tasks: list[Task], **options: Any) -> Evaluation:
    defaults: dict[str, Any] = {
        "render": lambda task: [ord(c) for c in task.prompt],
        "text": _text,
        "params": PARAMS,
        "judge": _numbers,
    }
    return asyncio.run(evaluate(sampler, tasks, **{**defaults, **options}))


def test_every_task_is_asked_once_and_recorded_in_order() -> None:
    tasks, sampler = _tasks(), CharacterSampler(knows=0.5)
    got = _evaluate(sampler, tasks, seed=9, concurrency=7)
    assert [item.task for item in got.items] == [task.id for task in tasks]
    assert sorted(call[3] for call in sampler.calls) == sorted(task.number for task in tasks)
    assert {call[1:3] for call in sampler.calls} == {(1, 9)} and len(sampler.released) == len(tasks)
    first = got.items[0]
    assert first.prompt == tasks[0].prompt and first.expected == tasks[0].answer and first.finish == "stop"
    assert _text(first.tokens) == first.text and first.length == len(first.text) + 1
    assert (got.model, got.version, got.params["temperature"], got.params["stop_ids"]) == ("toy", 3, 0.0, [STOP])


def test_accuracy_and_format_are_reported_apart() -> None:
    tasks = _tasks()
    plain, wordy = _evaluate(CharacterSampler(0.5), tasks), _evaluate(CharacterSampler(0.5, "= "), tasks)
    right = sum(task.number % 1000 < 500 for task in tasks)
    assert plain.accuracy == wordy.accuracy == wilson_interval(right, len(tasks))
    assert plain.format_rate == wilson_interval(200, 200) and wordy.format_rate == wilson_interval(0, 200)
    assert wordy.mean_length == plain.mean_length + 2


def test_truncated_answers_are_counted() -> None:
    got = _evaluate(CharacterSampler(1.0, "words and words "), _tasks(20))
    assert got.truncated == 1.0 and got.mean_length == 8 and _evaluate(CharacterSampler(1.0), _tasks(20)).truncated == 0


def test_what_is_missing_is_left_out_and_counted() -> None:
    tasks = _tasks(40)

    async def every_other(task: Task, texts: list[str]) -> list[Judgement]:
        return [Judgement(correct=None if task.number % 2 else True) for _ in texts]

    async def none(task: Task, texts: list[str]) -> list[Judgement]:
        return [Judgement() for _ in texts]

    got = _evaluate(CharacterSampler(1.0), tasks, judge=every_other)
    odd = sum(task.number % 2 for task in tasks)
    assert got.accuracy == wilson_interval(40 - odd, 40 - odd) and got.missing("correct") == odd
    assert got.summary()["accuracy_missing"] == odd
    unjudged = _evaluate(CharacterSampler(1.0), tasks, judge=none)
    assert unjudged.accuracy is None and unjudged.format_rate is None and unjudged.summary()["accuracy"] is None


def test_feedback_gives_the_reward() -> None:
    async def half_for_a_number(task: Task, texts: list[str]) -> list[Judgement]:
        judged = await _numbers(task, texts)
        return [replace(one, reward=(bool(one.correct) + bool(one.well_formed)) / 2) for one in judged]

    got = _evaluate(CharacterSampler(0.5), _tasks(), judge=half_for_a_number)
    assert got.accuracy is not None
    assert got.summary()["reward"]["estimate"] == pytest.approx((got.accuracy.estimate + 1) / 2)


CHECKS: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, bool, bool | None]]]] = [
    ({"mode": "exact"}, {"answer": "7"}, [("7", True, True), ("It is 7", False, False), ("8", False, True)]),
    ({"kind": "math"}, {"answer": "1/2"}, [("$0.5$", True, True), ("$0.6$", False, True), ("no", False, False)]),
    (
        {"kind": "json_schema", "key": "right"},
        {"schema": {"type": "object", "required": ["a"]}, "right": {"a": 1}},
        [('{"a": 1}', True, True), ('{"a": 2}', False, True), ("{", False, False), ("{}", False, False)],
    ),
    ({"kind": "exact"}, {"answer": "yes"}, [("yes", True, True), ("no", False, True)]),
]


@pytest.mark.parametrize(
    ("keys", "columns", "answers"), CHECKS, ids=lambda v: str(v.get("kind")) if "kind" in v else ""
)
def test_every_kind_of_reward_can_say_what_is_right(
    keys: dict[str, Any], columns: dict[str, Any], answers: list[tuple[str, bool, bool | None]]
) -> None:
    check = Check(EvaluationSpec.model_validate({"data": {"path": "x"}, "correct": keys}).correct)
    task = Task(prompt="?", columns=columns)
    try:
        found = asyncio.run(judged_by(check)(task, [answer for answer, *_ in answers]))
    finally:
        check.feedback.close()
    assert [(one.correct, one.well_formed) for one in found] == [tuple(rest) for _, *rest in answers]
    assert (found[0].reward is None) == (keys.get("kind") is None), "numbers are right or wrong, and that is all"
    assert check.feedback.ledger.total("evaluation", "seconds") > 0


def test_several_samples_are_clusters_of_their_task() -> None:
    tasks = _tasks(100)
    once = _evaluate(CharacterSampler(0.5), tasks)
    four = _evaluate(CharacterSampler(0.5), tasks, samples_per_task=4, params=replace(PARAMS, temperature=1.0))
    assert len(four.items) == 400 and once.accuracy is not None and four.accuracy is not None
    assert four.accuracy.estimate == once.accuracy.estimate
    assert four.accuracy.high - four.accuracy.low == pytest.approx(once.accuracy.high - once.accuracy.low, rel=0.1)


def test_the_comparison_pairs_the_items() -> None:
    tasks = _tasks()
    before, after = _evaluate(CharacterSampler(0.3), tasks), _evaluate(CharacterSampler(0.7), tasks)
    got = compare(before, after)
    gained = sum(300 <= task.number % 1000 < 700 for task in tasks)
    assert (got.improved, got.worsened, got.items) == (gained, 0, 200)
    assert got.difference.estimate == pytest.approx(gained / 200) and got.difference.excludes_zero
    assert got == compare(before, after) and json.loads(json.dumps(got.to_json()))["improved"] == gained
    same = compare(before, replace(before, items=before.items[::-1]))
    assert same.difference.estimate == 0 and -0.02 < same.difference.low < 0 < same.difference.high < 0.02


def test_only_like_is_compared_with_like() -> None:
    tasks = _tasks(30)
    one = _evaluate(CharacterSampler(0.5), tasks)
    with pytest.raises(InputError, match=r"different items \(1 only in the first, 0 only in the second\)"):
        compare(one, _evaluate(CharacterSampler(0.5), tasks[:-1]))
    with pytest.raises(InputError, match="sampled differently: max_tokens is 8 and 9"):
        compare(one, _evaluate(CharacterSampler(0.5), tasks, params=replace(PARAMS, max_tokens=9)))
    with pytest.raises(InputError, match="no item has 'reward'"):
        compare(one, one, "reward")


def test_it_is_saved_and_loaded_equal(tmp_path: Path) -> None:
    one = _evaluate(CharacterSampler(0.5), _tasks(30), notes={"template": "none"})
    one.save(tmp_path / "evaluations" / "before.json")
    assert Evaluation.load(tmp_path / "evaluations" / "before.json") == one
    shown = json.loads((tmp_path / "evaluations" / "before.json").read_text())
    assert shown["summary"] == one.summary() and shown["notes"] == {"template": "none"}
    (tmp_path / "other.json").write_text('{"items": []}')
    with pytest.raises(InputError, match="not an evaluation"):
        Evaluation.load(tmp_path / "other.json")
    with pytest.raises(InputError, match="no such evaluation"):
        Evaluation.load(tmp_path / "absent.json")


def test_what_cannot_be_evaluated_is_refused() -> None:
    tasks = _tasks(3)
    for wrong, options, message in (
        ([], {}, "list of tasks is empty"),
        ([tasks[0], tasks[0]], {}, "in the evaluation twice"),
        (tasks, {"samples_per_task": 4}, "all alike"),
    ):
        with pytest.raises(InputError, match=message):
            _evaluate(CharacterSampler(0.5), wrong, **options)


def test_an_error_of_the_sampler_is_not_swallowed() -> None:
    class Broken(CharacterSampler):
        async def sample(self, *_: Any, **__: Any) -> list[Completion]:
            raise InputError("prompt longer than the context")

    with pytest.raises(InputError, match="longer than the context"):
        _evaluate(Broken(0.5), _tasks(3))


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    _evaluate(CharacterSampler(0.5), _tasks(5), progress=lambda done, of: told.append((done, of)))
    assert told == [(i, 5) for i in range(1, 6)]
