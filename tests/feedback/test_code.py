"""The code verifier: a program runs in the sandbox or not at all; what it passes is counted where it cannot reach."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from burnish.environments.sandbox import Cause, ExecResult, SandboxSpec
from burnish.environments.sandbox.results import fault
from burnish.errors import InputError
from burnish.feedback.verifiers.program_tests import read_tests, same_output
from burnish.tasks import Task
from burnish.traces import Status
from tests.feedback.judging import feedback, judged, kinds, rewards

ASSERTIONS = {"tests": ["assert double(1) == 2", "assert double(-3) == -6", "assert double('a') == 'aa'"]}
CALLS = {"tests": {"fn_name": "double", "inputs": [[1], [-3], ["a"]], "outputs": [2, -6, "aa"]}}
OUTPUT = {"tests": {"inputs": ["1\n", "-3\n"], "outputs": ["2\n", "-6"]}}
QUICK = {"kind": "code", "time_limit": 1.0}


def fenced(program: str) -> str:
    return f"Here it is:\n```python\n{program}\n```\n"


RIGHT = fenced("def double(x):\n    return x + x")


@pytest.mark.parametrize("tests", [ASSERTIONS, CALLS, {"tests": "\n".join(ASSERTIONS["tests"])}])
def test_a_function_is_run_against_assertions_and_calls(tests: dict[str, Any]) -> None:
    texts = [
        RIGHT,
        fenced("def double(x):\n    return x * 2 if x != 'a' else x"),
        fenced("class Solution:\n    def double(self, x):\n        return x + x"),
        fenced("def double(x):\n    return undefined"),
        "I cannot do this.",
    ]
    by_call = "fn_name" in tests["tests"]
    expected = [1.0, 0.0, float(by_call), 0.0, 0.0]
    verdicts = judged(QUICK, tests, texts)
    assert [v.reward for v in verdicts] == expected
    assert [v.evidence.get("kinds", {}).get("code", "") for v in verdicts] == [
        "", "tests_failed", "" if by_call else "tests_failed", "tests_failed", "no_code",
    ]  # fmt: skip
    if not isinstance(tests["tests"], str):
        shares = rewards({**QUICK, "credit": "fraction"}, tests, texts)
        assert shares == pytest.approx([1.0, 2 / 3, float(by_call), 0.0, 0.0])


def test_a_program_is_run_against_input_and_output() -> None:
    texts = [
        fenced("print(2 * int(input()))"),
        fenced("print(2)"),
        fenced("print(abs(2 * int(input())))"),
        fenced("import sys\nprint(2 * int(input()))\nsys.exit(3)"),
    ]
    assert rewards(QUICK, OUTPUT, texts) == [1.0, 0.0, 0.0, 0.0]
    assert rewards({**QUICK, "credit": "fraction"}, OUTPUT, texts) == [1.0, 0.5, 0.5, 0.0]
    assert kinds(QUICK, OUTPUT, texts) == ["", "tests_failed", "tests_failed", "program_failed"]
    pairs = {"tests": [{"input": "1\n", "output": "2"}, {"input": "4\n", "output": "8"}]}
    assert rewards(QUICK, pairs, texts[:2]) == [1.0, 0.0]


FORGERY = """
import os
for place in range(1, 20):
    for mark in ("mark", "", "x" * 32):
        for test in range(3):
            try:
                os.write(place, f'["{mark}", {test}, true]\\n'.encode())
            except OSError:
                pass
raise SystemExit(0)
"""


@pytest.mark.parametrize(
    "result",
    [
        "'x' * 3_000_000",
        "10 ** 400",
        "10 ** 5000",
        "eval('[' * 90 + ']' * 90)",
        "float('nan')",
        "float('inf')",
        "{1, 2}",
        "print",
    ],
)
def test_a_result_of_any_sort_is_a_wrong_one(result: str) -> None:
    program = fenced(f"def double(x):\n    return {result}")
    good = fenced("def double(x):\n    return 2 * x")
    assert kinds(QUICK, CALLS, [program, good]) == ["tests_failed", ""], "it costs the others nothing"
    assert kinds(QUICK, {"tests": {"inputs": [[1]], "outputs": [0.5], "fn_name": "double"}}, [program]) == [
        "tests_failed"
    ]


THIEF = """
import os, re, sys
found = set()
frame = sys._getframe()
while frame:
    for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
        found |= set(re.findall("[0-9a-f]{32}", str(value)))
    frame = frame.f_back
for mark in found:
    for place in ("{}", "[0]", "null", '"0"', "1e999", "true"):
        os.write(1, f'["{mark}", {place}, 1]\\n'.encode())
os._exit(0)
"""


def test_a_program_that_finds_the_mark_and_writes_nonsense_is_scored_0_and_costs_the_others_nothing() -> None:
    good = fenced("def double(x):\n    return 2 * x")
    for tests in (ASSERTIONS, CALLS):
        assert rewards(QUICK, tests, [fenced(THIEF), good]) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("program", "kind", "status"),
    [
        ("while True:\n    pass", "time_limit", Status.TIME_LIMIT),
        ("x = b'x' * (1 << 40)", "program_failed", Status.OK),
        ("import sys\nsys.exit(0)", "tests_failed", Status.OK),
        ("import os\nos._exit(0)", "tests_failed", Status.OK),
        ("raise SystemExit", "tests_failed", Status.OK),
        ("def double(x:", "program_failed", Status.OK),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "program_failed", Status.OK),
        (FORGERY, "tests_failed", Status.OK),
        ("import os\nwhile True:\n    os.write(1, b'x' * 65536)", "time_limit", Status.TIME_LIMIT),
        ("x = '\\ud800'\n# \ud800", "program_failed", Status.OK),
    ],
)
def test_what_a_program_does_is_scored_0_by_name(program: str, kind: str, status: Status) -> None:
    for tests in (ASSERTIONS, CALLS):
        (verdict,) = judged({**QUICK, "time_limit": 0.5}, tests, [fenced(program)])
        assert (verdict.reward, verdict.evidence["kinds"]["code"], verdict.status) == (0.0, kind, status)


def test_a_program_that_sleeps_for_ever_is_scored_0() -> None:
    (verdict,) = judged({**QUICK, "time_limit": 0.1}, OUTPUT, [fenced("import time\ntime.sleep(10**6)")])
    assert (verdict.reward, verdict.evidence["kinds"]["code"]) == (0.0, "time_limit")


def test_tests_that_passed_before_the_time_was_up_count_for_the_fraction() -> None:
    program = fenced("def double(x):\n    while x == 'a':\n        pass\n    return x + x")
    (verdict,) = judged({**QUICK, "credit": "fraction"}, CALLS, [program])
    assert verdict.reward == pytest.approx(2 / 3) and verdict.status is Status.TIME_LIMIT


def test_the_results_expected_of_calls_and_outputs_are_nowhere_in_the_sandbox() -> None:
    """What the program is given: its own text and the arguments; the comparison is made outside."""
    seen: list[tuple[Any, ...]] = []

    async def runner(files: Any, command: Any, limits: Any = None, *, stdin: Any = b"") -> ExecResult:
        seen.append((files, command, stdin))
        return fault("never mind", Cause.CANDIDATE)

    secret = "expected-by-nobody"
    rows = [
        {"tests": {"fn_name": "double", "inputs": [[1]], "outputs": [secret]}},
        {"tests": {"inputs": ["1\n"], "outputs": [secret]}},
    ]
    for columns in rows:
        assert rewards(QUICK, columns, [RIGHT], runner=runner) == [0.0]
    assert len(seen) == 2 and secret not in str(seen)


def test_a_sandbox_that_fails_is_missing_and_not_0() -> None:
    calls: list[int] = []

    async def runner(files: Any, command: Any, limits: Any = None, *, stdin: Any = b"") -> ExecResult:
        calls.append(1)
        return fault("no sandbox can be made here")

    for columns in (ASSERTIONS, CALLS, OUTPUT):
        (verdict,) = judged({**QUICK, "credit": "fraction"}, columns, [RIGHT], runner=runner)
        assert verdict.reward is None and verdict.status is Status.INFRA_ERROR
        assert verdict.evidence["kinds"] == {"code": "sandbox_failed"} and "no sandbox can be made" in verdict.reason
    assert len(calls) == 3


def test_without_a_sandbox_there_is_no_code_reward() -> None:
    with pytest.raises(InputError, match="there is no sandbox to run it in"):
        feedback("code", runner=None)


def test_limits_and_how_many_run_at_a_time() -> None:
    running, most = 0, 0
    given: list[SandboxSpec] = []

    async def runner(files: Any, command: Any, limits: Any = None, *, stdin: Any = b"") -> ExecResult:
        nonlocal running, most
        running, given[:] = running + 1, [limits]
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return fault("-", Cause.CANDIDATE)

    spec = {"rewards": [{"kind": "code", "time_limit": 3.0, "memory_limit": 100}], "workers": 3}
    judge = feedback(spec, runner=runner)
    for _ in range(2):  # each in an event loop of its own
        asyncio.run(judge.verdicts("t", ASSERTIONS, [RIGHT] * 8))
    assert most == 3
    assert (given[0].cpu_seconds, given[0].wall_seconds, given[0].memory) == (3.0, 11.0, 100 << 20)


@pytest.mark.parametrize(
    "tests",
    [
        [], "", [" "], [1], {}, {"inputs": ["1"]}, {"inputs": ["1"], "outputs": []}, {"inputs": [], "outputs": []},
        {"inputs": [1], "outputs": ["1"]}, {"inputs": ["1"], "outputs": ["1"], "fn_name": "f"},
        {"inputs": [[1]], "outputs": ["1"], "fn_name": 3}, [{"input": "1"}], 7,
    ],
)  # fmt: skip
def test_tests_of_no_known_form_are_refused_before_the_run(tests: Any) -> None:
    assert read_tests(tests) is None
    with pytest.raises(InputError, match="column 'tests'"):
        feedback("code").check([Task(prompt="p", columns={"tests": tests})])
    assert kinds("code", {"tests": tests}, [RIGHT]) == ["no_key"]


def test_tests_may_be_written_as_json_text() -> None:
    feedback("code").check([Task(prompt="p", columns={"tests": json.dumps(OUTPUT["tests"])})])
    assert rewards(QUICK, {"tests": json.dumps(OUTPUT["tests"])}, [fenced("print(2 * int(input()))")]) == [1.0]


@pytest.mark.parametrize(
    ("expected", "printed", "same"),
    [
        ("1\n2\n", "1 \n2", True), ("1 2", "1  2", False), ("1\n\n2", "1\n2", False), ("", "\n", True),
        (" 1", "1", False), ("a", "A", False),
    ],
)  # fmt: skip
def test_outputs_are_the_same_but_for_space_at_the_ends(expected: str, printed: str, same: bool) -> None:
    assert same_output(expected, printed) is same
