"""A user's reward function: given what it asks for; its failures are missing (E8) and told of, never 0."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnish.errors import InputError, RunError
from burnish.feedback import Feedback, FeedbackSpec, build
from burnish.tasks import Task
from burnish.traces import CONTEXT, Group, Role, Span, Status, Trace, Verdict


def _feedback(function: Any, base: Path | None = None, **options: Any) -> Feedback:
    return build(FeedbackSpec.model_validate({"kind": "function", "function": function, **options}), base)


def _group(key: str, texts: list[str], **columns: Any) -> Group:
    members = []
    for text in texts:
        trace = Trace(text)
        members.append(Span(trace, trace.add(-1, [1], CONTEXT, Role.PROMPT)))
    return Group(key, members, columns=columns)


def _judge(feedback: Feedback, *groups: Group) -> None:
    asyncio.run(feedback.judge(groups, lambda span: span.trace.id))


def _rewards(group: Group) -> list[float | None]:
    return [m.verdict.reward if m.verdict else None for m in group.members]


def _reasons(group: Group) -> list[str]:
    return [m.verdict.reason if m.verdict else "" for m in group.members]


def test_it_receives_completions_and_the_columns_of_its_row_as_lists() -> None:
    calls = []

    def reward(completions: list[str], **columns: list[Any]) -> list[float]:
        calls.append((completions, columns))
        return [float(len(c)) for c in completions]

    one, two = _group("a", ["x", "xyz"], answer="4", level=2), _group("b", ["xy"], answer="5", level=None)
    _judge(_feedback(reward), one, two)
    assert sorted(calls, key=str) == [
        (["x", "xyz"], {"answer": ["4", "4"], "level": [2, 2]}),
        (["xy"], {"answer": ["5"], "level": [None]}),
    ]
    assert _rewards(one) == [1.0, 3.0] and _rewards(two) == [2.0]
    assert one.members[1].verdict == Verdict(3.0, components={"reward": 3.0})


def test_it_receives_only_what_it_names() -> None:
    def reward(completions: list[str], answer: list[str], bonus: float = 0.5) -> list[float]:
        return [float(c == a) + bonus for c, a in zip(completions, answer, strict=True)]

    group = _group("a", ["4", "5"], answer="4", other=1)
    _judge(_feedback(reward), group)
    assert _rewards(group) == [1.5, 0.5]


def test_async_functions_callable_objects_arrays_and_booleans() -> None:
    async def slow(completions: list[str]) -> list[float]:
        await asyncio.sleep(0)
        return [1.0] * len(completions)

    class Judge:
        async def __call__(self, completions: list[str]) -> np.ndarray:
            return np.arange(len(completions), dtype=np.float32)

    def flags(completions: list[str]) -> tuple[Any, ...]:
        return tuple(c == "b" for c in completions)

    for function, expected in ((slow, [1.0, 1.0]), (Judge(), [0.0, 1.0]), (flags, [0.0, 1.0])):
        group = _group("a", ["a", "b"])
        _judge(_feedback(function), group)
        assert _rewards(group) == expected


def test_none_is_missing_and_not_zero() -> None:
    group = _group("a", ["a", "b"])
    feedback = _feedback(lambda completions: [None, 0])
    _judge(feedback, group)
    first = group.members[0].verdict
    assert (
        first is not None and first.reward is None and first.status is Status.VOID and "returned None" in first.reason
    )
    assert not group.members[0].counts and np.isnan(group.rewards[0]) and group.rewards[1] == 0.0
    assert feedback.counts() == {"<lambda>/calls": 1, "<lambda>/none": 1}


def test_a_row_on_which_it_raises_is_missing_named_and_counted() -> None:
    def reward(completions: list[str], answer: list[str]) -> list[float]:
        return [float(int(a)) for a in answer]

    good, bad = _group("row-1", ["x"], answer="1"), _group("row-2", ["x", "y"], answer="one")
    feedback = _feedback(reward)
    _judge(feedback, good, bad)
    assert _rewards(good) == [1.0] and _rewards(bad) == [None, None]
    assert "task row-2 ('one'): raised ValueError: invalid literal" in _reasons(bad)[0]
    assert all(m.verdict and m.verdict.status is Status.VERIFIER_ERROR and not m.counts for m in bad.members)
    assert feedback.counts() == {"reward/calls": 2, "reward/raised": 1}


def test_a_function_that_always_raises_stops_the_run_with_its_own_traceback() -> None:
    def reward(completions: list[str]) -> list[float]:
        scale = 0
        return [1 / scale for _ in completions]

    with pytest.raises(RunError, match="failed in all 3 calls") as error:
        _judge(_feedback(reward), *(_group(f"row-{i}", ["x"]) for i in range(3)))
    message = str(error.value)
    assert "ZeroDivisionError: division by zero" in message and "return [1 / scale for _ in completions]" in message
    assert "limited.py" not in message and "row-" in message


def test_failures_in_a_row_stop_the_run_even_after_it_has_worked() -> None:
    calls = []

    def reward(completions: list[str]) -> list[float]:
        calls.append(1)
        if len(calls) > 1:
            raise KeyError("session")
        return [1.0]

    feedback = _feedback(reward)
    for i in range(8):
        _judge(feedback, _group(f"row-{i}", ["x"]))
    resumed = _feedback(reward)
    resumed.load(json.loads(json.dumps(feedback.state())))
    assert resumed.counts() == feedback.counts() == {"reward/calls": 8, "reward/raised": 7}
    with pytest.raises(RunError, match="the last 8 of 9 calls"):
        _judge(resumed, _group("row-8", ["x"]))
    with pytest.raises(RunError, match="the last 8 of 9 calls"):
        _judge(feedback, _group("row-8", ["x"]))


@pytest.mark.parametrize(
    ("returned", "reason"),
    [
        ([float("nan"), 1.0], "completion 0: returned nan; return a finite number, or None"),
        ([float("inf"), 1.0], "returned inf"),
        (["0.5", 1.0], "returned '0.5'"),
        ([10**400, 1.0], "returned 1000"),
        ([[1.0], 1.0], r"returned \[1.0\]"),
    ],
)
def test_a_value_that_is_no_finite_number_is_missing(returned: list[Any], reason: str) -> None:
    group = _group("row-1", ["a", "b"])
    feedback = _feedback(lambda completions: returned)
    _judge(feedback, group)
    assert _rewards(group) == [None, 1.0]
    assert re.search(reason, _reasons(group)[0])
    assert feedback.counts()["<lambda>/invalid"] == 1


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([1.0], "returned 1 values for 2 completions; return one for each"),
        ([1.0] * 3, "returned 3 values for 2 completions"),
        (1.0, "must return a list with one number per completion, not float"),
        (None, "not NoneType"),
        ("ab", "not str"),
        ([float("nan")] * 2, "returned nan"),
    ],
)
def test_an_answer_of_the_wrong_shape_stops_the_run(returned: Any, message: str) -> None:
    with pytest.raises(RunError, match=message):
        _judge(_feedback(lambda completions: returned), _group("row-1", ["a", "b"]))


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()  # lets the threads of hanging calls end


def test_a_hanging_call_is_missing_and_the_others_are_judged(release: threading.Event) -> None:
    def reward(completions: list[str]) -> list[float]:
        if completions == ["hang"]:
            release.wait()
        return [1.0]

    async def waits(completions: list[str]) -> list[float]:
        if completions == ["hang"]:
            await asyncio.Event().wait()
        return [1.0]

    for function in (reward, waits):
        fine, hangs = _group("a", ["x"]), _group("b", ["hang"])
        feedback = _feedback(function, time_limit=0.5)
        _judge(feedback, hangs, fine)
        assert _rewards(fine) == [1.0] and _rewards(hangs) == [None]
        assert "task b: ran past its limit of 0.5 s" in _reasons(hangs)[0]
        assert feedback.counts()[f"{function.__name__}/timed_out"] == 1


def test_a_timeout_error_of_its_own_is_told_as_such() -> None:
    def reward(completions: list[str]) -> list[float]:
        raise TimeoutError("the server")

    with pytest.raises(RunError, match="raised TimeoutError: the server"):
        _judge(_feedback(reward), _group("a", ["x"]))


def test_an_exit_inside_it_does_not_end_the_process_unseen() -> None:
    def reward(completions: list[str]) -> list[float]:
        raise SystemExit(0)

    with pytest.raises(RunError, match="raised SystemExit"):
        _judge(_feedback(reward), _group("a", ["x"]))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            lambda completions, anwser: [],
            r"asks for column 'anwser', which the data does not have; did you mean 'answer'",
        ),
        (lambda texts: [], r"must take `completions` by name and takes texts by name"),
        (lambda completions, /: [], "must take `completions` by name"),
        (lambda *a: [], "takes nothing by name"),
    ],
)
def test_a_wrong_signature_is_refused_before_the_run(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        _feedback(function).check([Task(prompt="a", columns={"answer": "1"})])


def test_a_column_called_completions_is_refused() -> None:
    with pytest.raises(InputError, match="has a column 'completions'"):
        _feedback(lambda completions: []).check([Task(prompt="a", columns={"completions": "1"})])


def test_functions_are_loaded_from_files_and_modules(tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text(
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: 'int' = 1\n"
        "def short(completions):\n    return [float(len(c) < A().x + 2) for c in completions]\n"
    )
    group = _group("a", ["x", "long"])
    _judge(_feedback("rewards.py:short", tmp_path), group)
    assert _rewards(group) == [1.0, 0.0]
    with pytest.raises(InputError, match="reward function json:dumps asks for column 'obj'"):
        _feedback("json:dumps").check([Task(prompt="a")])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("rewards.py", 'write it as "file.py:name" or'),
        ("rewards.py:", "write it as"),
        ("reward.py:f", r"no file .*reward\.py; did you mean 'rewards\.py'"),
        ("rewards.py:shrot", r"rewards\.py has no 'shrot'; did you mean 'short'"),
        ("rewards.py:LIMIT", "LIMIT is a int, not a function"),
        ("broken.py:f", r"importing .*broken\.py failed\n.*line 2[\s\S]*NameError: name 'undefined'"),
        ("typo.py:f", "SyntaxError"),
        ("no_such_package.rewards:f", "no module 'no_such_package'"),
    ],
)
def test_what_cannot_be_loaded_is_named_with_the_fix(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "rewards.py").write_text("LIMIT = 3\ndef short(completions):\n    return []\n")
    (tmp_path / "broken.py").write_text("x = 1\ny = undefined\n")
    (tmp_path / "typo.py").write_text("def f(:\n")
    with pytest.raises(InputError, match=message):
        _feedback(name, tmp_path)


def test_several_rewards_are_summed_by_weight_and_kept_apart() -> None:
    spec = {
        "rewards": [
            {"kind": "numeric"},
            {"kind": "format", "weight": 0.5},
            {
                "kind": "function",
                "function": lambda completions: [len(c) for c in completions],
                "name": "len",
                "weight": 0,
            },
        ]
    }
    group = _group("a", ["4", "It is 4", "five"], answer=4)
    _judge(build(FeedbackSpec.model_validate(spec)), group)
    assert _rewards(group) == [1.5, 1.0, 0.0]
    assert group.members[1].verdict is not None
    assert group.members[1].verdict.components == {"numeric": 1.0, "format": 0.0, "len": 7.0}


def test_a_missing_component_makes_the_sum_missing() -> None:
    spec = [{"kind": "numeric"}, {"kind": "function", "function": lambda completions: [None], "name": "own"}]
    group = _group("a", ["4"], answer=4)
    _judge(build(FeedbackSpec.model_validate(spec)), group)
    verdict = group.members[0].verdict
    assert verdict is not None and verdict.reward is None and verdict.components == {"numeric": 1.0}
    assert "component 'own' is missing" in verdict.reason


def test_two_components_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="two rewards are called 'numeric'"):
        build(FeedbackSpec.model_validate([{"kind": "numeric"}, {"kind": "numeric", "mode": "exact"}]))


def test_a_reward_with_which_nothing_can_be_computed_is_missing() -> None:
    feedback = _feedback(lambda completions, **columns: [1e31, -1e308, 1e29][: len(completions)])
    group = _group("a", ["x", "y", "z"])
    _judge(feedback, group)
    assert [r is None for r in _rewards(group)] == [True, True, False] and "overflows" in _reasons(group)[0]


def test_a_sum_that_overflows_is_missing() -> None:
    group = _group("a", ["4"])
    _judge(_feedback(lambda completions: [1e308], weight=100.0), group)
    assert _rewards(group) == [None] and "overflows" in _reasons(group)[0]


def test_nested_groups_are_judged_once_with_the_columns_of_their_parent() -> None:
    outer, inner = _group("a", ["x"], answer=1), _group("b", ["y"], extra=2)
    inner.members.append(outer.members[0])
    outer.children.append(inner)
    calls = []

    def reward(completions: list[str], **columns: list[Any]) -> list[float]:
        calls.append((completions, columns))
        return [1.0] * len(completions)

    _judge(_feedback(reward, concurrency=1), outer)
    assert calls == [(["x"], {"answer": [1]}), (["y"], {"answer": [1], "extra": [2]})]


def test_a_machinery_failure_keeps_its_verdict() -> None:
    group = _group("a", ["x", "y"])
    group.members[0].verdict = lost = Verdict.missing(Status.INFRA_ERROR, "the sandbox did not start")
    _judge(_feedback(lambda completions: [1.0] * len(completions)), group)
    assert group.members[0].verdict is lost and _rewards(group) == [None, 1.0]


def test_a_spec_with_a_callable_can_be_saved() -> None:
    spec = FeedbackSpec.model_validate(_judge)
    assert spec.model_dump(mode="json")["rewards"][0]["function"].endswith("test_function:_judge")


def test_verdicts_asked_for_at_once_settle_beside_each_other() -> None:
    """One call is still under way when another has settled: it counts for neither side until it ends."""

    async def reward(completions: list[str]) -> list[float]:
        await asyncio.sleep(0.05 * len(completions[0]))
        if completions[0] == "xxxx":
            raise ValueError("late")
        return [1.0]

    for feedback in (_feedback(reward), build(FeedbackSpec.model_validate({"kind": "numeric"}))):

        async def both(feedback: Feedback = feedback) -> list[list[Verdict]]:
            texts = ("x", "xxxx", "xx")
            return await asyncio.gather(*(feedback.verdicts(text, {"answer": 1}, [text]) for text in texts))

        found = [verdicts[0].reward for verdicts in asyncio.run(both())]
        assert found in ([1.0, None, 1.0], [0.0, 0.0, 0.0])


def test_a_call_under_way_is_not_taken_for_one_that_worked() -> None:
    async def reward(completions: list[str]) -> list[float]:
        await asyncio.sleep(0.3 if completions == ["slow"] else 0.0)
        raise ValueError("never works")

    feedback = _feedback(reward)

    async def ask() -> None:
        slow = asyncio.ensure_future(feedback.verdicts("a", {}, ["slow"], settle=False))
        await asyncio.sleep(0.05)
        try:
            with pytest.raises(RunError, match="failed in all"):
                await feedback.verdicts("b", {}, ["quick"])
        finally:
            await slow

    asyncio.run(ask())
