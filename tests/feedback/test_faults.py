"""Promise E8: whatever the machinery does, no answer is trained as 0 for it, and every fault is counted by name."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from benchmarks.verifiers import FAULTS, inject
from burnish.errors import RunError
from burnish.feedback import Feedback
from burnish.feedback.reward import MISSING, ROWS_FAULTS, SCORED
from burnish.feedback.verifiers.keyed import FAILURES_TO_STOP
from burnish.feedback.workers.pool import Answer, Job, Pool
from burnish.traces import Group, Status, Verdict
from tests.feedback.judging import feedback, group, judged, kinds, text_of


def test_no_injected_fault_is_trained_as_zero_and_all_are_counted_by_name() -> None:
    """The benchmark of 10,000 verifications, in small."""
    report = inject(verifications=400, share=0.05, seed=3)
    assert report["trained_as_zero_through_the_machinery"] == 0
    assert report["injected"] == dict.fromkeys(FAULTS, 20)
    assert report["unaccounted"] == []
    assert report["right_answers_scored_1"] == report["right_answers_left"] > 200


class Pretending(Pool):
    """Answers by itself: what a job's text says."""

    def __init__(self, answers: Callable[[Job], Answer]) -> None:
        super().__init__(1)
        self.answers = answers

    def submit(self, job: Job) -> Any:
        from concurrent.futures import Future

        future: Future[Answer] = Future()
        future.set_result(self.answers(job))
        return future


def _judge(judge: Feedback, *groups: Group) -> None:
    asyncio.run(judge.judge(groups, text_of))


def by_text(job: Job) -> Answer:
    text = job.argument["text"]
    return {"value": 1.0, "kind": "", "reason": ""} if text == "right" else {"missing": text, "reason": "as injected"}


def test_a_lost_member_leaves_its_group_and_is_named_for_resampling() -> None:
    lost = group("a", ["right", "worker_killed", "right", "pool_broken"], answer="1")
    whole = group("b", ["right", "right"], answer="1")
    beyond = group("c", ["right", "bad_key", "worker_stuck"], answer="1")
    keyless = group("d", ["right", "right"])
    inner = group("e", ["verifier_raised"])
    inner.members.append(lost.members[1])
    lost.children.append(inner)
    judge = feedback("math", Pretending(by_text))
    _judge(judge, lost, whole, beyond, keyless)
    assert judge.to_resample([lost, whole, beyond, keyless]) == [(lost, 1), (lost, 3), (inner, 0), (beyond, 2)]
    assert [m.reward for m in lost.members if m.counts] == [1.0, 1.0]
    assert all(m.verdict and m.verdict.reward is None for m in keyless.members)
    assert judge.counts() == {
        "math/worker_killed": 1, "math/pool_broken": 1, "math/verifier_raised": 1, "math/bad_key": 1,
        "math/worker_stuck": 1, "math/no_key": 2,
    }  # fmt: skip


def test_what_an_environment_lost_is_resampled_and_what_was_judged_is_not() -> None:
    members = group("a", ["x", "y", "z", "w"], answer="1")
    members.members[0].verdict = Verdict.missing(Status.INFRA_ERROR, "the sandbox did not start")
    members.members[1].verdict = Verdict.missing(Status.VOID, "nobody judged it")
    members.members[2].verdict = Verdict(0.0, Status.TIME_LIMIT)
    assert feedback("numeric").to_resample([members]) == [(members, 0)]


def test_a_function_that_fails_is_resampled_and_one_that_returns_none_is_not() -> None:
    def function(completions: list[str]) -> list[float | None]:
        return [None if text == "none" else float(text) for text in completions]

    good, bad = group("a", ["1", "none"]), group("b", ["x"])
    judge = feedback({"kind": "function", "function": function})
    _judge(judge, good, bad)
    assert judge.to_resample([good, bad]) == [(bad, 0)]


def test_a_row_without_a_right_answer_does_not_stop_the_run_and_nothing_but_such_rows_does() -> None:
    judge = feedback("numeric")
    for i in range(FAILURES_TO_STOP - 1):
        _judge(judge, group(f"row-{i}", ["1"], answer="one"))
    _judge(judge, group("row", ["1"], answer="1"))
    for i in range(FAILURES_TO_STOP - 1):
        _judge(judge, group(f"row-{i}", ["1"]))
    state = json.loads(json.dumps(judge.state()))
    resumed = feedback("numeric")
    resumed.load(state)
    assert resumed.counts() == judge.counts() == {"numeric/no_key": 2 * (FAILURES_TO_STOP - 1)}
    for each in (judge, resumed):
        with pytest.raises(RunError, match=f"nothing of the last {FAILURES_TO_STOP} groups.*column 'answer'"):
            _judge(each, group("row-8", ["1", "2"]))


def test_a_machine_on_which_no_check_works_stops_the_run_and_says_why() -> None:
    judge = feedback("math", Pretending(lambda job: {"missing": "pool_broken", "reason": "no room left"}))
    with pytest.raises(RunError, match="the 'math' reward could judge nothing of the last 8 groups.*no room left"):
        _judge(judge, *(group(f"row-{i}", ["1", "2"], answer="1") for i in range(8)))


class Journal:
    """Remembers every answer, as the journal of a run does, and asks nobody a second time."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked = 0

    async def ask(self, kind: str, question: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        name = json.dumps([kind, question])
        if name not in self.answers:
            self.asked += 1
            self.answers[name] = json.loads(json.dumps(await ask()))
        return self.answers[name]


def test_verdicts_of_workers_and_sandboxes_come_out_the_same_when_a_run_is_resumed() -> None:
    """What was lost the first time stays lost: a resumed run has the same bits (promise E2)."""
    journal = Journal()
    lives: list[list[Any]] = []

    async def runner(files: Any, command: Any, limits: Any = None, *, stdin: Any = b"") -> Any:
        from burnish.environments.sandbox.results import fault

        return fault("the first time")

    for answers in (by_text, lambda job: {"value": 1.0, "kind": "", "reason": ""}):
        rewards = [{"kind": "math", "weight": 2.0}, {"kind": "code", "weight": 0.0}]
        spec = {"rewards": rewards, "gates": [{"component": "code", "least": 0.0, "gates": ["math"]}]}
        columns = {"answer": "1", "tests": "assert True"}
        judge = feedback(spec, Pretending(answers), outside=journal, runner=runner)
        verdicts = asyncio.run(judge.verdicts("t", columns, ["right", "worker_killed", "```\nx\n```"]))
        lives.append([verdicts, judge.counts(), judge.state()])
    assert lives[0] == lives[1] and journal.asked == 2
    assert lives[0][0][0].evidence["kinds"] == {"code": "no_code"}


CANDIDATES: dict[str, tuple[Any, dict[str, Any]]] = {
    "numeric": ("numeric", {"answer": "4"}),
    "format": ("format", {}),
    "exact": ("exact", {"answer": "4"}),
    "math": ({"kind": "math", "time_limit": 1.0}, {"answer": "4"}),
    "json_schema": ({"kind": "json_schema", "time_limit": 1.0}, {"schema": {"type": "integer"}}),
    "tool_call": ({"kind": "tool_call", "time_limit": 1.0, "tools": None}, {"calls": [{"name": "f", "arguments": {}}]}),
    "instructions": (
        {"kind": "instructions", "time_limit": 1.0, "credit": "all"},
        {"instruction_id_list": ["startend:end_checker"], "kwargs": [{"end_phrase": "the very end"}]},
    ),
    "choice": ({"kind": "choice", "time_limit": 1.0}, {"answer": "C", "options": ["x", "y", "z"]}),
    "code": ({"kind": "code", "read": "whole", "time_limit": 0.5}, {"tests": ["assert f(1) == 1"]}),
    "claims": ("claims", {"claims": ["a", ["b", "c"]]}),
    "expression": ("expression", {"numbers": [3, 5, 2], "target": 16}),
}
BAD = {
    "ten megabytes": "x" * 10_000_000,
    "nul bytes": "\0" * 1000,
    "surrogates": "\ud800\udfff" * 100,
    "unbalanced": r"\boxed{\frac{1}{2" * 1000,
    "brackets": "[" * 100_000,
    "digits": "8" * 1_000_000,
    "more digits": "8" * 900_000,
    "spaces": " " * 900_000 + "x",
    "fences": "```\n" * 200_000,
    "nothing": "",
}


@pytest.mark.parametrize("kind", CANDIDATES)
def test_no_answer_however_bad_is_missing_or_goes_without_a_name(kind: str, pool: Pool) -> None:
    spec, columns = CANDIDATES[kind]
    for verdict in judged(spec, columns, list(BAD.values()), pool):
        is_number = kind == "format" and verdict.reward == 1.0
        assert is_number or (verdict.reward == 0.0 and verdict.evidence["kinds"][kind] in SCORED)
    assert kinds(spec, columns, [BAD["ten megabytes"]], pool) == ["too_long"]


def test_a_text_that_is_too_long_is_not_looked_at_and_shifts_no_other() -> None:
    given: list[int] = []

    def answers(job: Job) -> Answer:
        given.append(len(job.argument["text"]))
        return {"value": float(job.argument["text"] == "right"), "kind": "", "reason": ""}

    texts = ["x" * 1_000_001, "right", "y" * 1_000_000, "z" * 2_000_000, "right"]
    verdicts = judged("math", {"answer": "1"}, texts, Pretending(answers))
    assert [v.reward for v in verdicts] == [0.0, 1.0, 0.0, 0.0, 1.0]
    assert given == [5, 1_000_000, 5]


def test_every_kind_of_fault_has_one_meaning() -> None:
    assert not set(SCORED) & set(MISSING) and set(MISSING) >= ROWS_FAULTS
    with pytest.raises(ValueError, match="carries no reward"):
        Verdict(0.0, Status.VERIFIER_ERROR)
