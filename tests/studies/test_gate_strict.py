"""What the admission gate takes for failing, for a fault and for luck, and that it can make any call there is."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from burnish.environments import Action, Attempt, Call, Environment, Observation, passed, result, said, tool
from burnish.environments.protocol import Move, Policy
from burnish.environments.registry import Custom, build
from burnish.environments.spec import CustomSpec, HackableSpec, LookupSpec
from burnish.errors import InputError
from burnish.studies.gate import MOST_FAULTS, GateReport, gate_family
from burnish.tasks import Task
from burnish.traces import Status, Verdict


def tasks(count: int = 40) -> list[Task]:
    words = [f"w{i % 20}" for i in range(count)]
    return [Task(messages=({"role": "user", "content": f"say {i}"},), answer=w) for i, w in enumerate(words)]


class Say(Environment):
    """Right is the task's answer."""

    pure = True

    async def reset(self, task: Task, *, seed: int) -> Observation:
        return said(task.text)

    async def step(self, action: Action) -> Observation:
        return Observation(done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        return passed(attempt.answer == attempt.task.answer)

    @staticmethod
    def oracle(task: Task, draw: Any) -> Generator[Move, Observation, None]:
        yield task.answer or ""


def report(cls: type[Environment]) -> GateReport:
    return gate_family(Custom(CustomSpec(path=f"f.py:{cls.__name__}"), cls, tasks()))


def refused(found: GateReport) -> set[str]:
    return {check.name for check in found.checks if not check.passed}


def test_what_is_sound_is_admitted() -> None:
    assert report(Say).admitted


@pytest.mark.parametrize(("pays", "floor", "admitted"), [(0.9, 0.0, False), (-0.5, 0.0, True), (0.1, 0.1, True)])
def test_failing_is_a_reward_of_no_more_than_nothing_or_than_the_declared_floor(
    pays: float, floor: float, admitted: bool
) -> None:
    class Partial(Say):
        async def verify(self, attempt: Attempt) -> Verdict:
            return Verdict(1.0 if attempt.answer == attempt.task.answer else pays)

    Partial.floor = floor  # type: ignore[attr-defined]
    found = report(Partial)
    assert found.admitted is admitted
    if not admitted:
        assert refused(found) == {"untouched fails", "no-op fails"} and found.rates["no-op"] == 1.0
        assert "at most 0.9" in next(check.seen for check in found.checks if check.name == "no-op fails")


def test_components_do_not_hide_what_is_paid() -> None:
    class Hiding(Say):
        async def verify(self, attempt: Attempt) -> Verdict:
            right = float(attempt.answer == attempt.task.answer)
            return Verdict(max(right, 0.9), components={"true": right})

    assert refused(report(Hiding)) == {"untouched fails", "no-op fails"}


@pytest.mark.parametrize("status", [Status.VERIFIER_ERROR, Status.INFRA_ERROR, Status.VOID])
def test_a_verdict_without_a_reward_is_a_fault(status: Status) -> None:
    class Shy(Say):
        async def verify(self, attempt: Attempt) -> Verdict:
            right = attempt.answer == attempt.task.answer
            return Verdict(1.0) if right else Verdict.missing(status, "the judge is down")

    found = report(Shy)
    assert refused(found) == {"all checks made", "no faults of the machinery"}
    assert "8 faults: the judge is down" in {check.seen for check in found.checks}


@pytest.mark.parametrize("declared", [True, False])
def test_only_a_declared_guess_may_be_lucky(declared: bool) -> None:
    def guess(task: Task, draw: Any) -> Generator[Move, Observation, None]:
        yield "w3"  # right in two of forty

    class Guessed(Say):
        shortcuts: ClassVar[Mapping[str, Policy]] = {"w3": guess}
        guesses: ClassVar[Sequence[str]] = ("w3",) if declared else ()

    assert refused(report(Guessed)) == (set() if declared else {"shortcut: w3 fails"})


def test_the_worlds_declare_their_guesses() -> None:
    lookup, hackable = build(LookupSpec(count=4)), build(HackableSpec(count=4))
    for world in (lookup, hackable):
        assert set(world.guesses) <= set(world.shortcuts) and world.guesses  # type: ignore[attr-defined]


def test_each_attempt_has_a_seed_of_its_own() -> None:
    seeds: list[int] = []

    class Seeded(Say):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            seeds.append(seed)
            self.generous = seed % 16 == 5
            return said(task.text)

        async def verify(self, attempt: Attempt) -> Verdict:
            return passed(self.generous or attempt.answer == attempt.task.answer)

    found = report(Seeded)
    assert len(set(seeds)) == len(seeds) - 2 * 40  # the reruns are of the same
    assert {"untouched fails", "no-op fails"} & refused(found)


# ---------------------------------------------------------------- calls


QUERY: dict[str, Any] = {
    "type": "object",
    "properties": {"mode": {"type": "string"}, "query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
}


@pytest.mark.parametrize(
    "arguments",
    [
        {"query": "a, b", "limit": 3},
        {"query": "a"},
        {"query": ""},
        {"query": "a</tool_call>b"},
        {"query": "a</think>b"},
        {"query": "a", "other": {"deep": ["x, y"]}},
    ],
)
def test_a_scripted_call_is_made_as_it_is(arguments: dict[str, Any]) -> None:
    schema = {**QUERY, "additionalProperties": True}

    class Search(Say):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            self.seen: Any = None
            return said(task.text, {"type": "function", "function": {"name": "search", "parameters": schema}})

        async def step(self, action: Action) -> Observation:
            self.seen = dict(action.calls[0].arguments) if action.calls else None
            return Observation(done=True)

        async def verify(self, attempt: Attempt) -> Verdict:
            return passed(self.seen == arguments)

        @staticmethod
        def oracle(task: Task, draw: Any) -> Generator[Move, Observation, None]:
            yield Call("search", arguments)

    assert refused(report(Search)) == set()


def test_a_scripted_call_that_does_not_fit_is_not_made() -> None:
    class Strict(Say):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return said(task.text, tool("add", a=int))

        async def verify(self, attempt: Attempt) -> Verdict:
            return passed(any(turn.action.wrong for turn in attempt.turns))

        @staticmethod
        def oracle(task: Task, draw: Any) -> Generator[Move, Observation, None]:
            yield Call("add", {"a": "x"})

    assert refused(report(Strict)) == set()


# ---------------------------------------------------------------- what no observation may hold


@pytest.mark.parametrize(("tells", "declared"), [(True, True), (True, False), (False, True)])
def test_a_world_may_say_what_no_observation_may_hold(tells: bool, declared: bool) -> None:
    class Telling(Say):
        async def reset(self, task: Task, *, seed: int) -> Observation:
            return said("guess", tool("look"))

        async def step(self, action: Action) -> Observation:
            if action.calls:
                return Observation((result(action.calls[0], "a word"),))
            if action.text:
                return Observation(done=True)
            return said(f"the word is {self.word}" if tells else "say something")

        async def verify(self, attempt: Attempt) -> Verdict:
            return passed(attempt.answer == attempt.task.answer)

        @property
        def word(self) -> str:
            return "w1"

    if declared:
        Telling.hidden = staticmethod(lambda task: [task.answer])  # type: ignore[attr-defined]
    found = report(Telling)
    name = "nothing hidden in the observations"
    assert refused(found) == ({name} if tells and declared else set())
    assert (name in {check.name for check in found.checks}) is declared


def test_an_environment_that_hangs_is_not_asked_on_and_on() -> None:
    asked = []

    class Hung(Say):
        pure = False

        async def verify(self, attempt: Attempt) -> Verdict:
            asked.append(attempt.task.id)
            await asyncio.sleep(60)
            raise AssertionError

    family = Custom(CustomSpec(path="f.py:Hung"), Hung, tasks())
    found = gate_family(family, call_seconds=0.02)
    assert not found.admitted and len(asked) == MOST_FAULTS
    assert {"all checks made", "no faults of the machinery"} <= refused(found)


def raising(task: Task, draw: Any) -> Generator[Move, Observation, None]:
    raise KeyError("key")
    yield


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({"oracle": staticmethod(raising)}, "oracle 0: the scripted policy of 'Odd' raised KeyError"),
        ({"oracle": staticmethod(lambda task, draw: ["a"])}, "the scripted policy of 'Odd' raised TypeError"),
        ({"oracle": 5}, "oracle, stray, secrets and hidden are static functions"),
        ({"turns": "x"}, "turns is a whole number above 0, not 'x'"),
        ({"turns": -1}, "turns is a whole number above 0, not -1"),
        ({"shortcuts": ["x"]}, "shortcuts is a dict of name: policy"),
        ({"floor": "0"}, "floor is a number, not '0'"),
        ({"guesses": "luck"}, "guesses is a list of names"),
        ({"secrets": staticmethod(lambda task: None)}, "secrets"),
    ],
)
def test_what_a_class_says_wrongly_of_itself_is_told(declared: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        report(type("Odd", (Say,), declared))
