"""With --json the output holds JSON alone, whatever reward functions and libraries print."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.cli import main
from burnish.running.output import results, results_apart
from tests.forked import burnish

NOISY = """\
import os, subprocess, sys, warnings
print("printed at import")

def reward(completions, **columns):
    print("printed by the reward")
    sys.stdout.write("written by the reward")  # without an end of line
    os.write(1, b"written past Python\\n")
    subprocess.run(["echo", "printed by a child process"])
    warnings.warn("warned by the reward")
    return [float(len(set(c))) for c in completions]
"""

RECIPE = """\
method: grpo
steps: 2
prompts_per_step: 2
samples_per_prompt: 2
model: {path: "nursery:arithmetic-S", dtype: float32}
data: {path: rows.jsonl}
rewards: {kind: function, function: "noisy.py:reward"}
sampling: {max_tokens: 3}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "noisy.py").write_text(NOISY)
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    row = json.dumps({"prompt": "12+34=", "answer": 46})
    (tmp_path / "rows.jsonl").write_text(f"{row}\n{row}\n")
    return tmp_path


def test_the_events_of_a_run_are_json_lines_although_its_reward_prints(folder: Path) -> None:
    done = burnish("train", "recipe.yaml", "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    names = [event["event"] for event in events]
    assert names[-2:] == ["finish", "result"] and names.count("start") == 1 and names.count("step") == 2
    assert set(names) <= {"start", "phase", "step", "message", "finish", "result"}
    assert events[-1]["out"] == "run" and events[-1]["summary"]["steps"] == 2
    told = [event["text"] for event in events if event["event"] == "message"]
    assert any("1 of 2 rows repeat an earlier row" in text for text in told)
    for said in ("at import", "by the reward", "past Python", "by a child process", "warned by the reward"):
        assert said in done.stderr


def test_without_json_what_a_reward_prints_is_where_it_printed_it(folder: Path) -> None:
    done = burnish("train", "recipe.yaml", "--out", "run", "--quiet", cwd=folder)
    assert done.returncode == 0 and "printed by the reward" in done.stdout and "past Python" in done.stdout
    assert done.stdout.splitlines()[-1] == "run: run"


def test_other_results_in_json_are_alone_too(folder: Path) -> None:
    check = burnish("check", "nursery:arithmetic-S", "--dtype", "float32", "--json", cwd=folder)
    assert json.loads(check.stdout)["passed"] is True
    evaluated = burnish(
        "eval", "nursery:arithmetic-S", "--data", "family:arithmetic", "data.family.count=4", "--json", cwd=folder
    )
    assert json.loads(evaluated.stdout)["items"] == 4


def test_a_wrong_usage_in_json_mode_leaves_the_output_empty(folder: Path) -> None:
    done = burnish("train", "recipe.yaml", "stepps=3", "--json", cwd=folder)
    assert (done.returncode, done.stdout) == (2, "") and "did you mean steps?" in done.stderr


def test_the_output_is_given_back(capfd: pytest.CaptureFixture[str]) -> None:
    with results_apart():
        print("to the errors")
        print("a result", file=results())
    print("to the output")
    shown = capfd.readouterr()
    assert shown.out == "a result\nto the output\n" and shown.err == "to the errors\n"
    assert results() is not None


def test_json_mode_serves_a_caller_in_the_same_process(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as end:
        main(["eval", "nursery:arithmetic-S", "data.family.count=2", "--json"])
    assert end.value.code is None or end.value.code == 0
    assert json.loads(capsys.readouterr().out)["items"] == 2
