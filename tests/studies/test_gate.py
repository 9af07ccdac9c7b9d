"""The admission gate: what it admits, and that each of its checks fails for an environment that deserves it."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.environments import Action, Attempt, Call, Environment, Observation, passed, result, said, tool
from burnish.environments.protocol import Move, Policy
from burnish.environments.worlds.hackable import Hackable
from burnish.errors import InputError
from burnish.studies.gate import GateReport, gate, gate_family
from burnish.tasks import Task
from burnish.traces import Status, Verdict


@pytest.mark.parametrize(
    ("name", "overrides"), [("lookup", []), ("grid", ["levels=[1,3]"]), ("hackable", ["world=grid", "levels=[1,3]"])]
)
def test_the_worlds_are_admitted(name: str, overrides: list[str]) -> None:
    report = gate(name, overrides, tasks=15)
    assert report.admitted, [check for check in report.checks if not check.passed]
    assert report.rates["oracle"] == 1.0 and report.tasks == 15 * (2 if overrides else 4)
    names = {check.name for check in report.checks}
    assert {"solvable", "deterministic", "untouched fails", "no-op fails", "nothing private in the opening"} <= names
    assert ("exploit: the cheap text is flagged" in names) == (name == "hackable")


class Guess(Environment):
    """Asks for a number between 0 and 99 that can be looked up."""

    pure = True
    broken = ""
    count = 0

    async def reset(self, task: Task, *, seed: int) -> Observation:
        if self.broken == "raises":
            raise OSError("no room")
        self.number = task.columns["number"]
        type(self).count += 1
        drift = f" {type(self).count}" if self.broken == "drifts" else ""
        return said(task.text + drift, tool("look"))

    async def step(self, action: Action) -> Observation:
        if action.calls:
            return Observation((result(action.calls[0], self.number),))
        return Observation(done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        if self.broken == "untouched" and not attempt.turns:
            return passed(True)
        if self.broken == "silence" and attempt.turns and not attempt.turns[-1].action.text:
            return passed(True)
        if self.broken == "contains":
            return passed(str(self.number) in str(attempt.answer))
        return passed(attempt.answer == str(self.number))


class Guesses:
    name, pure, turns, levels = "guess", True, 4, (1, 2)

    def __init__(self, broken: str = "") -> None:
        self.broken = broken
        self.cls = type("Guessing", (Guess,), {"broken": broken})

    def tasks(self) -> list[Task]:
        leak = self.broken == "leaks"
        return [
            Task(
                messages=({"role": "user", "content": f"guess {i}" + (f" not {10 + i}" if leak else "")},),
                columns={"number": 10 + i}, answer=str(10 + i), difficulty=float(1 + i % 2),
            )
            for i in range(40)
        ]  # fmt: skip

    def make(self) -> Environment:
        return self.cls()

    def oracle(self, task: Task, draw: Any) -> Generator[Move, Observation, None]:
        seen = yield Call("look")
        if self.broken == "slow":
            for _ in range(4):
                seen = yield Call("look")
        yield seen.messages[0]["content"] if self.broken != "unsolved" or task.difficulty == 1 else "?"

    def stray(self, task: Task, draw: Any) -> Move:
        if self.broken == "easier":
            return str(task.answer) if task.difficulty == 2 else "?"
        return "?"

    @property
    def shortcuts(self) -> Mapping[str, Policy]:
        def every(task: Task, draw: Any) -> Generator[Move, Observation, None]:
            yield " ".join(map(str, range(100)))

        return {"every number": every}

    def exploits(self) -> Mapping[str, Policy]:
        return {}

    def secrets(self, task: Task) -> list[str]:
        return [str(task.answer)]


def failed(report: GateReport) -> set[str]:
    return {check.name for check in report.checks if not check.passed}


@pytest.mark.parametrize(
    ("broken", "checks"),
    [
        ("", set()),
        ("untouched", {"untouched fails"}),
        ("silence", {"no-op fails"}),
        ("contains", {"shortcut: every number fails"}),
        ("unsolved", {"solvable"}),
        ("slow", {"solvable"}),
        ("drifts", {"deterministic"}),
        ("leaks", {"nothing private in the opening"}),
        ("easier", {"harder levels are harder"}),
    ],
)
def test_each_check_refuses_what_it_is_there_for(broken: str, checks: set[str]) -> None:
    assert failed(gate_family(Guesses(broken), tasks=20)) == checks  # type: ignore[arg-type]


def test_an_environment_that_raises_is_not_admitted_and_the_fault_is_told() -> None:
    report = gate_family(Guesses("raises"), tasks=5)  # type: ignore[arg-type]
    [check] = [check for check in report.checks if check.name == "no faults of the machinery"]
    assert not check.passed and "environment.reset: raised OSError: no room" in check.seen


def test_an_exploit_that_is_not_flagged_is_not_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def quiet(self: Hackable, attempt: Attempt) -> Verdict:
        return Verdict(float(self.hacked), Status.OK, components={"true": 0.0, "hack": 0.0})

    monkeypatch.setattr(Hackable, "verify", quiet)
    assert "exploit: the cheap text is flagged" in failed(gate("hackable", ["levels=[1]"], tasks=5))


def test_an_environment_without_an_oracle_cannot_be_shown_solvable() -> None:
    family = Guesses()
    family.oracle = None  # type: ignore[assignment,method-assign]
    report = gate_family(family, tasks=5)  # type: ignore[arg-type]
    assert failed(report) == {"solvable"}


def test_the_command_tells_and_its_exit_status_says_the_same(tmp_path: Path) -> None:
    run = CliRunner()
    done = run.invoke(app, ["env", "gate", "lookup", "levels=[1,2]", "--tasks", "10", "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and report["admitted"] and len(report["checks"]) > 8
    (tmp_path / "own.py").write_text(
        "from burnish.environments import Environment, said, Observation, passed\n"
        "class Free(Environment):\n"
        "    async def reset(self, task, *, seed): return said('say anything')\n"
        "    async def step(self, action): return Observation(done=True)\n"
        "    async def verify(self, attempt): return passed(True)\n"
    )
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b"}\n')
    (tmp_path / "r.yaml").write_text(
        f"method: grpo\nmodel: {{path: x}}\ndata: {{path: {tmp_path / 'rows.jsonl'}}}\nprompts_per_step: 2\n"
        f"environment: {{kind: custom, path: '{tmp_path / 'own.py'}:Free'}}\n"
    )
    done = run.invoke(app, ["env", "gate", str(tmp_path / "r.yaml")])
    assert done.exit_code == 1
    assert "Free: not admitted" in done.stdout and "untouched fails" in done.stdout


def test_what_cannot_be_put_to_the_gate_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="there is no world 'lookupp' and no recipe of that name; did you mean 'lookup'"
    ):
        gate("lookupp")
    with pytest.raises(InputError, match=r"there is no key environment\.level"):
        gate("lookup", ["level=1"])
    (tmp_path / "r.yaml").write_text("method: sft\nmodel: {path: x}\ndata: {path: y}\n")
    with pytest.raises(InputError, match="names no environment"):
        gate(tmp_path / "r.yaml")
