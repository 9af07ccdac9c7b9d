"""An environment that is not pure: a thread of its own, and answers that a resumed run replays."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from burnish.environments import Action, Attempt, Environment, Observation, passed, said
from burnish.environments.guard import EnvironmentFault, Guarded
from burnish.environments.worked import Reading
from burnish.outside import content_hash
from burnish.tasks import Task
from burnish.traces import Status, Verdict

TASK = Task(prompt="a")


class Recorded:
    """Answers from what was recorded, as a run's journal does; `recorded` may be cut short, as by a kill."""

    def __init__(self, recorded: list[tuple[str, Any]] | None = None) -> None:
        self.answers: dict[str, deque[Any]] = defaultdict(deque)
        for key, answer in recorded or []:
            self.answers[key].append(answer)
        self.log: list[tuple[str, Any]] = []

    async def ask(self, kind: str, question: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        key = content_hash(kind, question)
        answer = self.answers[key].popleft() if self.answers[key] else await ask()
        self.log.append((key, answer))
        return answer


class Counter(Environment):
    """Counts its steps; the world outside decides by how much."""

    made = 0
    by = 1

    def __init__(self) -> None:
        type(self).made += 1
        self.count = 0

    async def reset(self, task: Task, *, seed: int) -> Observation:
        self.loop = asyncio.get_running_loop()
        self.thread = threading.current_thread()
        return said(f"begin {seed}")

    async def step(self, action: Action) -> Observation:
        assert asyncio.get_running_loop() is self.loop and threading.current_thread() is self.thread
        if action.text == "exit":
            raise SystemExit(3)
        self.count += type(self).by
        return said(str(self.count))

    async def verify(self, attempt: Attempt) -> Verdict:
        return Verdict(float(self.count), components={"count": float(self.count)}, evidence={"by": [type(self).by]})


def fresh() -> type[Counter]:
    return type("Counting", (Counter,), {"made": 0})


async def played(cls: type[Counter], outside: Recorded, steps: int = 3) -> list[Any]:
    guarded = Guarded(cls, False, 20.0, ["task", 0], outside)
    answers: list[Any] = [await guarded.reset(TASK, 5)]
    for number in range(steps):
        answers.append(await guarded.step(Action(f"go {number}")))
    answers.append(await guarded.verify(Attempt(TASK)))
    await guarded.close()
    return answers


def test_an_environment_has_one_thread_and_one_loop_for_all_its_calls() -> None:
    answers = asyncio.run(played(fresh(), Recorded()))
    assert [o.messages[0]["content"] for o in answers[:-1]] == ["begin 5", "1", "2", "3"]
    assert answers[-1] == Verdict(3.0, Status.OK, "", {"count": 3.0}, {"by": [1]})


def test_what_was_answered_before_is_replayed_and_the_environment_is_not_even_made() -> None:
    cls, first = fresh(), Recorded()
    before = asyncio.run(played(cls, first))
    cls.by = 7  # the world has changed
    assert asyncio.run(played(cls, Recorded(first.log))) == before
    assert cls.made == 1


@pytest.mark.parametrize("kept", [1, 2, 4])
def test_an_attempt_that_was_interrupted_is_brought_back_to_where_it_was(kept: int) -> None:
    cls, first = fresh(), Recorded()
    before = asyncio.run(played(cls, first))
    assert asyncio.run(played(cls, Recorded(first.log[:kept]))) == before
    assert cls.made == 2


def test_an_environment_that_does_not_come_back_to_where_it_was_spoils_the_attempt() -> None:
    cls, first = fresh(), Recorded()
    asyncio.run(played(cls, first))
    cls.by = 7
    with pytest.raises(EnvironmentFault, match="answered otherwise than before the run was interrupted"):
        asyncio.run(played(cls, Recorded(first.log[:3])))


def test_a_fault_is_replayed_too() -> None:
    cls, first = fresh(), Recorded()

    async def fail(outside: Recorded) -> str:
        guarded = Guarded(cls, False, 20.0, ["task", 0], outside)
        await guarded.reset(TASK, 5)
        with pytest.raises(EnvironmentFault) as caught:
            await guarded.step(Action("exit"))
        await guarded.close()
        return caught.value.reason

    reason = asyncio.run(fail(first))
    assert "SystemExit: 3" in reason
    assert asyncio.run(fail(Recorded(first.log))) == reason and cls.made == 1


def test_a_snapshot_goes_on_by_itself_also_where_nothing_but_the_journal_has_answered() -> None:
    async def fork(cls: type[Counter], outside: Recorded) -> list[str]:
        guarded = Guarded(cls, False, 20.0, ["task", 0], outside)
        await guarded.reset(TASK, 5)
        await guarded.step(Action("go"))
        twin = await guarded.snapshot(["task", 0, "twin"])
        told = [await g.step(Action(text)) for g, text in ((guarded, "a"), (twin, "b"), (twin, "c"), (guarded, "d"))]
        for each in (guarded, twin):
            await each.close()
        return [o.messages[0]["content"] for o in told]

    class Copied(Counter):
        async def snapshot(self) -> Environment:
            twin = type(self)()
            twin.count = self.count
            return twin

        async def step(self, action: Action) -> Observation:
            self.count += 1
            return said(str(self.count))

    first = Recorded()
    assert asyncio.run(fork(Copied, first)) == ["2", "2", "3", "3"]
    for kept in (2, 4, 6):
        assert asyncio.run(fork(Copied, Recorded(first.log[:kept]))) == ["2", "2", "3", "3"]


class Odd(Environment):
    """Gives what it is told to."""

    pure = True
    gives: Any = None

    async def reset(self, task: Task, *, seed: int) -> Observation:
        return self.gives

    async def step(self, action: Action) -> Observation:
        return self.gives

    async def verify(self, attempt: Attempt) -> Verdict:
        return self.gives


SAID = ({"role": "user", "content": "w"},)


@pytest.mark.parametrize(
    ("method", "gives", "words"),
    [
        ("reset", None, "gave None, not an Observation"),
        ("reset", Observation(), "without messages, which a model cannot answer"),
        ("reset", Observation(({"role": "assistant", "content": "x"},)), "one of the roles system, user, tool"),
        (
            "reset",
            Observation(({"role": "assistant", "content": "x", "tool_calls": [{}]}, *SAID)),
            "what `showed` makes",
        ),
        ("step", Observation(({"role": "assistant", "content": "x"}, *SAID)), "one of the roles system, user, tool"),
        ("step", Observation(({"role": "tool", "content": 3},)), "needs a text as its content"),
        ("step", Observation(), "without messages"),
        ("step", "text", "gave a str, not an Observation"),
        ("step", Observation(({"role": "tool", "content": "x", "more": {1}},)), "not made of JSON values"),
        ("step", Observation(None), "gave None as messages, not a tuple"),  # type: ignore[arg-type]
        ("reset", Observation(SAID, tools=None), "gave None as tools, not a tuple"),  # type: ignore[arg-type]
        ("reset", Observation(SAID, state_key=3), "a state_key is a text or None, not a int"),  # type: ignore[arg-type]
        ("verify", 1.0, "gave a float, not a Verdict"),
        ("verify", Verdict(None, "lost", "why"), "gave a str as a status"),  # type: ignore[arg-type]
        ("verify", Verdict(1.0, evidence={"seen": {1, 2}}), "not made of JSON values"),
        ("verify", Verdict(1.0, components={"a": "x"}), "gave a verdict with {'a': 'x'} as components"),  # type: ignore[dict-item]
        ("verify", Verdict(1.0, components={"a": float("nan")}), "as components"),
        ("verify", Verdict(1.0, components=None), "with None as components"),  # type: ignore[arg-type]
        ("verify", Verdict(1.0, evidence=None), "with None as evidence"),  # type: ignore[arg-type]
        ("verify", Verdict(1.0, evidence={"kinds": 5}), "with 5 as evidence\\['kinds'\\]"),
        ("verify", Verdict(1.0, reason=5), "with 5 as a reason"),  # type: ignore[arg-type]
        ("verify", Verdict(1e308), "a reward of 1e\\+308, with which nothing can be computed"),
    ],
)
def test_an_answer_that_is_none_is_a_fault_of_the_environment(method: str, gives: Any, words: str) -> None:
    guarded = Guarded(type("Given", (Odd,), {"gives": gives}), True, 20.0)

    async def ask() -> None:
        match method:
            case "reset":
                await guarded.reset(TASK, 0)
            case "step":
                await guarded.step(Action(""))
            case _:
                await guarded.verify(Attempt(TASK))

    with pytest.raises(EnvironmentFault, match=words) as caught:
        asyncio.run(ask())
    assert caught.value.verdict.status is Status.INFRA_ERROR and caught.value.verdict.reward is None


def test_a_last_observation_needs_no_messages() -> None:
    guarded = Guarded(type("Given", (Odd,), {"gives": Observation(done=True)}), True, 20.0)
    assert asyncio.run(guarded.step(Action(""))).done
    assert passed(False).reward == 0.0


# ---------------------------------------------------------------- a run that was interrupted


def test_an_environment_that_is_not_replayable_is_not_asked_twice() -> None:
    cls, first = fresh(), Recorded()
    before = asyncio.run(played(cls, first))

    async def again(kept: int) -> list[Any]:
        guarded = Guarded(cls, False, 20.0, ["task", 0], Recorded(first.log[:kept]), replayable=False)
        answers: list[Any] = [await guarded.reset(TASK, 5)]
        for number in range(3):
            answers.append(await guarded.step(Action(f"go {number}")))
        answers.append(await guarded.verify(Attempt(TASK)))
        return answers

    assert asyncio.run(again(5)) == before and cls.made == 1  # it had come to its end: nothing is asked
    for kept in (1, 3, 4):
        with pytest.raises(EnvironmentFault, match="may not be made again") as caught:
            asyncio.run(again(kept))
        assert caught.value.verdict.status is Status.INFRA_ERROR
    assert cls.made == 1
    asyncio.run(again(0))
    assert cls.made == 2  # nothing of it had been answered, so it begins


def test_calls_that_are_made_again_do_not_count_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(1000))
    monkeypatch.setattr("burnish.environments.guard.now", lambda: Reading(float(next(ticks))))  # a call takes one

    async def seconds(outside: Recorded) -> float:
        guarded = Guarded(cls, False, 20.0, ["task", 0], outside)
        await guarded.reset(TASK, 5)
        for number in range(3):
            await guarded.step(Action(f"go {number}"))
        await guarded.close()
        return guarded.seconds

    cls, first = fresh(), Recorded()
    assert asyncio.run(seconds(first)) == 5.0
    assert asyncio.run(seconds(Recorded(first.log[:3]))) == 5.0


# ---------------------------------------------------------------- texts that cannot be written


@pytest.mark.parametrize("pure", [True, False])
def test_half_a_surrogate_pair_in_what_an_environment_says_is_replaced(pure: bool) -> None:
    class Halves(Counter):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return said("a\ud800b", state_key="\udfff")

        async def step(self, action: Action) -> Observation:
            raise ValueError("c\ud800")

        async def verify(self, attempt: Attempt) -> Verdict:
            return Verdict(0.0, Status.TASK_FAIL, "\ud800", evidence={"\ud800": ["d\ud800"]})

    async def ask() -> tuple[Observation, EnvironmentFault, Verdict]:
        guarded = Guarded(Halves, pure, 20.0, ["task", 0], Recorded())
        opening = await guarded.reset(TASK, 0)
        with pytest.raises(EnvironmentFault) as caught:
            await guarded.step(Action(""))
        return opening, caught.value, await guarded.verify(Attempt(TASK))

    opening, fault, verdict = asyncio.run(ask())
    assert opening.messages[0]["content"] == "a\ufffdb" and opening.state_key == "\ufffd"
    assert fault.reason == "raised ValueError: c\ufffd" and "c\ufffd" in fault.trace
    assert verdict.reason == "\ufffd" and verdict.evidence == {"\ufffd": ["d\ufffd"]}


def test_a_snapshot_that_is_the_environment_itself_is_refused() -> None:
    class Same(Counter):
        async def snapshot(self) -> Environment:
            return self

    async def fork() -> None:
        guarded = Guarded(Same, False, 20.0, ["task", 0], Recorded())
        await guarded.reset(TASK, 5)
        try:
            await guarded.snapshot(["task", 0, "twin"])
        finally:
            await guarded.close()

    with pytest.raises(EnvironmentFault, match="gave the environment itself"):
        asyncio.run(fork())


class MuteError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@pytest.mark.parametrize("pure", [True, False])
@pytest.mark.parametrize(
    ("error", "words"), [(MuteError(), "raised MuteError: \\(it cannot"), (SystemExit(0), "SystemExit: 0")]
)
def test_whatever_is_raised_is_a_fault_and_ends_nothing_else(pure: bool, error: BaseException, words: str) -> None:
    class Raising(Counter):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            raise error

    async def begin() -> None:
        guarded = Guarded(type("Raising", (Raising,), {"pure": pure}), pure, 20.0, ["task", 0], Recorded())
        try:
            await guarded.reset(TASK, 5)
        finally:
            guarded.abandon()

    with pytest.raises(EnvironmentFault, match=words):
        asyncio.run(begin())
