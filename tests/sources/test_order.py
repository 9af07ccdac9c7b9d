"""Which tasks a step takes: exact shares, stages, windows; from any step on it is as if the run had never stopped."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.errors import InputError
from burnish.sources.order import Order, TaskOrder, build_order
from burnish.sources.source import build
from burnish.sources.spec import DemonstrationsSpec
from burnish.sources.window import MeasuredOrder
from burnish.tasks import Task
from burnish.tasks.training import TrainingDataSpec
from burnish.traces import CONTEXT, Group, Role, Span, Status, Trace, Verdict
from burnish.traces.templates import chat_format
from tests.tiny import tiny_tokenizer


def tasks(counts: list[int], **columns: Any) -> list[Task]:
    """Tasks of several parts; `level` is their number within a part."""
    return [
        Task(prompt=f"{part}/{i}", columns={"level": i, "part": part, **columns}, part=part)
        for part, count in enumerate(counts)
        for i in range(count)
    ]


def spec(**keys: Any) -> TrainingDataSpec:
    values = {"path": "rows.jsonl", **keys} if "mix" not in keys else keys
    return TrainingDataSpec.model_validate(values)


def mixed(weights: list[float], **keys: Any) -> TrainingDataSpec:
    return spec(mix=[{"path": f"{i}.jsonl", "weight": weight} for i, weight in enumerate(weights)], **keys)


def taken(order: Order, steps: range) -> list[list[tuple[str, int]]]:
    return [[(task.prompt or "", number) for task, number in order.at(step)] for step in steps]


DATA: dict[str, tuple[list[int], TrainingDataSpec]] = {
    "plain": ([7], spec()),
    "mix": ([9, 4, 5], mixed([3, 1, 2])),
    "stages": ([12], spec(curriculum={"column": "level", "stages": [
        {"high": 4}, {"start": 4, "low": 3, "high": 9}, {"start": 9}]})),
    "mixed stages": ([8, 6], mixed([1, 1], curriculum={"stages": [
        {"weights": [1, 0]}, {"start": 3, "weights": [1, 3]}, {"start": 7}]})),
}  # fmt: skip


# ---------------------------------------------------------------- pure orders


@pytest.mark.parametrize("name", DATA)
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 14), st.integers(0, 3))
def test_a_resumed_order_takes_what_one_never_stopped_takes(name: str, step: int, seed: int) -> None:
    counts, data = DATA[name]
    whole = taken(build_order(tasks(counts), 4, seed, data), range(15))
    assert taken(build_order(tasks(counts), 4, seed, data), range(step, 15)) == whole[step:]
    assert taken(build_order(tasks(counts), 4, seed + 1, data), range(15)) != whole


@pytest.mark.parametrize("name", DATA)
def test_no_task_is_taken_twice_with_one_number(name: str) -> None:
    """The number picks the random numbers of its samples."""
    counts, data = DATA[name]
    pairs = [pair for step in taken(build_order(tasks(counts), 4, 0, data), range(40)) for pair in step]
    assert len(set(pairs)) == len(pairs)
    by_task: dict[str, list[int]] = {}
    for task, number in pairs:
        by_task.setdefault(task, []).append(number)
    assert all(numbers == sorted(numbers) for numbers in by_task.values())


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=4), st.integers(1, 12))
def test_a_mix_has_its_exact_proportions(weights: list[int], steps: int) -> None:
    data = mixed([float(w) for w in weights])
    per_step = sum(weights)
    order = build_order(tasks([6] * len(weights)), per_step, 0, data)
    for step in range(steps):
        counts = Counter(task.part for task, _ in order.at(step))
        assert [counts[part] for part in range(len(weights))] == weights


def test_each_part_goes_through_its_own_epochs() -> None:
    order = build_order(tasks([6, 3]), 3, 0, mixed([2, 1]))
    for part, count in ((0, 6), (1, 3)):
        own = [pair for step in taken(order, range(9)) for pair in step if pair[0].startswith(f"{part}/")]
        for epoch in range(len(own) // count):
            some = own[epoch * count : (epoch + 1) * count]
            assert len({task for task, _ in some}) == count and {number for _, number in some} == {epoch}
        assert own[:count] != [(task, 0) for task, _ in own[count : 2 * count]]


def test_parts_and_stages_are_shuffled_apart() -> None:
    first = taken(build_order(tasks([9, 9]), 2, 0, mixed([1, 1])), range(9))
    own = [[task[2:] for step in first for task, _ in step if task[0] == part] for part in "01"]
    assert own[0] != own[1]
    twice = spec(curriculum={"column": "level", "stages": [{"low": 0}, {"start": 3, "low": 0}]})
    steps = taken(build_order(tasks([9]), 3, 0, twice), range(6))
    assert [t for step in steps[:3] for t, _ in step] != [t for step in steps[3:] for t, _ in step]


def test_a_single_origin_is_taken_in_the_order_it_always_was() -> None:
    one = tasks([7])
    assert taken(build_order(one, 3, 4, spec()), range(9)) == taken(TaskOrder(one, 3, 4), range(9))
    assert [t for t, _ in taken(TaskOrder(one, 7, 0), range(1))[0]] == [f"0/{i}" for i in (3, 2, 0, 1, 4, 6, 5)]


def test_stages_take_their_difficulties_and_their_parts() -> None:
    counts, data = DATA["stages"]
    levels = [
        {int(t.partition("/")[2]) for t, _ in step} for step in taken(build_order(tasks(counts), 4, 0, data), range(12))
    ]
    assert set().union(*levels[:4]) == set(range(5)) and set().union(*levels[4:9]) == set(range(3, 10))
    assert set().union(*levels[9:]) == set(range(12))
    counts, data = DATA["mixed stages"]
    parts = [Counter(t[0] for t, _ in step) for step in taken(build_order(tasks(counts), 4, 0, data), range(9))]
    assert parts == [{"0": 4}] * 3 + [{"0": 1, "1": 3}] * 4 + [{"0": 2, "1": 2}] * 2


def test_a_family_brings_its_own_difficulty() -> None:
    made = [Task(prompt=str(i), difficulty=float(i)) for i in range(6)]
    staged = spec(curriculum={"stages": [{"high": 2}]})
    assert {t for t, _ in taken(build_order(made, 3, 0, staged), range(1))[0]} == {"0", "1", "2"}
    named = [Task(prompt=str(i), columns={"difficulty": i}) for i in range(6)]
    assert {t for t, _ in taken(build_order(named, 3, 0, staged), range(1))[0]} == {"0", "1", "2"}


@pytest.mark.parametrize(
    ("counts", "data", "message"),
    [
        ([0], spec(), "nothing to train on"),
        ([4, 0], mixed([1, 1]), "part 1 of the mix has no tasks"),
        ([8, 1], mixed([1, 1]), "each step takes 2 prompts of part 1 of the mix, which has only 1"),
        ([8], spec(curriculum={"column": "level", "stages": [{"low": 20}]}),
         r"stages.0: no tasks have its difficulty, and a step takes 4; difficulties lie between 0 and 7"),
        ([8], spec(curriculum={"column": "level", "stages": [{}, {"start": 2, "low": 6}]}), "stages.1: 2 tasks have"),
        ([8], spec(curriculum={"column": "leval", "stages": [{"low": 1}]}), "no column 'leval'.*did you mean 'level'"),
        ([8], spec(curriculum={"stages": [{"low": 1}]}), r"no column 'difficulty' \(data.curriculum.column\)"),
        ([8, 8], mixed([1, 1], curriculum={"column": "part", "stages": [{"low": 1}]}),
         "stages.0: part 0 of the mix has no tasks: give it some, or the weight 0 in this stage"),
    ],
)  # fmt: skip
def test_data_that_cannot_fill_a_step_is_refused(counts: list[int], data: TrainingDataSpec, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_order(tasks(counts), 4, 0, data)


# ---------------------------------------------------------------- measured windows


def _sample() -> Trace:
    trace = Trace("t")
    trace.add(-1, [1], CONTEXT, Role.PROMPT)
    return trace


def group(rewards: list[float | None]) -> Group:
    """Judged samples; None is a sample whose reward is missing."""
    members = []
    for reward in rewards:
        status = Status.OK if reward is not None else Status.VERIFIER_ERROR
        members.append(Span(_sample(), 0, verdict=Verdict(reward, status, "" if reward is not None else "broken")))
    return Group("g", members)


def measured(
    rates: dict[str, float], counts: list[int], data: TrainingDataSpec, steps: int, stop: int | None = None
) -> Any:
    """What a run takes whose tasks always have these pass rates; stopped after `stop` steps, and gone on with."""
    order = build_order(tasks(counts), 4, 0, data)
    found = []
    for step in range(steps):
        assert isinstance(order, MeasuredOrder)
        if step == stop:
            state = json.loads(json.dumps(order.state()))
            order = build_order(tasks(counts), 4, 0, data)
            assert isinstance(order, MeasuredOrder)
            order.load(state)
        chosen = order.at(step)
        for task, number in chosen:
            passed = round(10 * rates.get(task.prompt or "", 0.5))
            order.saw(task, number, group([1.0] * passed + [0.0] * (10 - passed)))
        found.append([(task.prompt, number) for task, number in chosen])
    return found


WINDOWED: dict[str, tuple[list[int], TrainingDataSpec]] = {
    "plain": ([12], spec(window={"low": 0.1, "high": 0.9, "rest": 2})),
    "mix": ([9, 8], mixed([2, 1], window={"low": 0.1, "high": 0.9})),
    "stages": ([12], spec(window={"low": 0.1, "high": 0.9}, curriculum={"column": "level", "stages": [
        {"high": 6}, {"start": 7}]})),
}  # fmt: skip
RATES = {f"{part}/{i}": rate for part in range(2) for i, rate in ((0, 0.0), (1, 1.0), (5, 1.0))}


@pytest.mark.parametrize("name", WINDOWED)
@settings(max_examples=15, deadline=None)
@given(st.integers(1, 24))
def test_a_resumed_window_takes_what_one_never_stopped_takes(name: str, stop: int) -> None:
    counts, data = WINDOWED[name]
    whole = measured(RATES, counts, data, 25)
    assert measured(RATES, counts, data, 25, stop=stop) == whole
    assert len({pair for step in whole for pair in step}) == 100  # no task twice with one number


def test_tasks_outside_of_the_window_rest_and_are_measured_again() -> None:
    counts, data = WINDOWED["plain"]
    whole = measured(RATES, counts, data, 30)
    numbers = {task: [n for step in whole for t, n in step if t == task] for task in ("0/0", "0/1", "0/2")}
    assert numbers["0/0"][:3] == [0, 3, 6] and numbers["0/1"][:3] == [0, 3, 6]
    assert numbers["0/2"][:7] == [0, 1, 2, 3, 4, 5, 6]


def test_what_is_measured_is_the_share_of_judged_samples_that_passed() -> None:
    data = spec(window={"low": 0.5, "passing": 2.0})
    order = build_order(tasks([4]), 4, 0, data)
    assert isinstance(order, MeasuredOrder)
    rewards: dict[str, list[float | None]] = {
        "0/0": [2.0, 3.0, None, None], "0/1": [2.0, 0.0], "0/2": [1.9, 1.9, 2.0], "0/3": [None, None],
    }  # fmt: skip
    for task, number in order.at(0):
        order.saw(task, number, group(rewards[task.prompt or ""]))
    by_id = {task.id: task.prompt for task in tasks([4])}
    assert {by_id[id]: rate for id, (rate, _) in order.state()["measured"].items()} == {
        "0/0": 1.0, "0/1": 0.5, "0/2": 1 / 3,
    }  # fmt: skip
    assert sorted(t.prompt or "" for t, epoch in order.at(1) if epoch == 1) == ["0/0", "0/1", "0/3"]


def test_a_window_in_which_no_task_lies_goes_on_measuring() -> None:
    data = spec(window={"low": 0.1, "high": 0.9, "rest": 3})
    whole = measured(dict.fromkeys([f"0/{i}" for i in range(8)], 1.0), [8], data, 6)
    assert [sorted({number for _, number in step}) for step in whole] == [[0], [0], [4], [4], [8], [8]]


def test_demonstrations_measure_nothing() -> None:
    shown = [Task(prompt="a", demonstration="b") for _ in range(4)]
    with pytest.raises(InputError, match="demonstrations are not sampled, so no pass rate is measured"):
        build(DemonstrationsSpec(prompts_per_step=1), shown, context=None, format=chat_format(tiny_tokenizer()), seed=0,
              data=spec(window={"low": 0.5}))  # fmt: skip


def test_demonstrations_follow_the_order_of_the_data() -> None:
    made = [
        Task(prompt=f"{part}/{i}", demonstration="b", part=part, id=f"{part}/{i}")
        for part in range(2)
        for i in range(4)
    ]
    form = chat_format(tiny_tokenizer(), "plain")
    declared = DemonstrationsSpec(prompts_per_step=3)
    source = build(declared, made, context=None, format=form, seed=0, data=mixed([2, 1]))

    async def keys(step: int) -> list[str]:
        return [group.key async for group in source.groups(step)]

    assert sorted(key[0] for key in asyncio.run(keys(0))) == ["0", "0", "1"] and source.state() == {}
