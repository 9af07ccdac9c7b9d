"""A recipe with all three trackers, through the public entry: trained, killed and resumed, refused, unharmed."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.running.progress import QuietProgress
from tests.forked import Forked
from tests.forked import burnish as command
from tests.tracking.reading import (
    tensorboard_scalars,
    tensorboard_text,
    trackio_alerts,
    trackio_rows,
    wandb_files,
    wandb_history,
)

RECIPE = """\
method: grpo
steps: 4
prompts_per_step: 2
samples_per_prompt: 2
model: {path: "nursery:arithmetic-S", dtype: float32}
data: {family: {count: 16, question: "{a}{op}{b}="}}
sampling: {max_tokens: 4}
rewards: numeric
checkpoint_every: 1
trackers: [tensorboard, {kind: trackio, project: sums}, {kind: wandb, mode: offline}]
"""


class Told(QuietProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the recipe, and a user without accounts and network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "HF_TOKEN", "TRACKIO_DIR", "TRACKIO_SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    Path("recipe.yaml").write_text(RECIPE)
    return tmp_path


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def finite(record: Mapping[str, Any]) -> dict[str, float]:
    return {key: value for key, value in record.items() if key != "step" and value is not None}


def test_all_three_trackers_hold_the_metrics_of_the_run() -> None:
    told = Told()
    run = burnish.train("recipe.yaml", out="runs/mine", progress=told)
    written = records(run.out)
    assert len(written) == 4 and all("timing/tokens_per_second" in record for record in written)
    trackers = run.out / "trackers"
    scalars = tensorboard_scalars(trackers)
    stored = trackio_rows(trackers, "sums")
    [file] = wandb_files(trackers)
    history = {row["_step"]: row for row in wandb_history(file)}
    for record in written:
        expected = finite(record)
        step = record["step"]
        assert {tag: dict(values)[step] for tag, values in scalars.items() if step in dict(values)} == pytest.approx(
            expected, rel=1e-6
        )
        assert [metrics for _, name, at, metrics in stored if at == step and name == "mine"] == [expected]
        assert {key: value for key, value in history[step].items() if not key.startswith("_")} == expected
    assert '"samples_per_prompt": 2' in tensorboard_text(trackers, "config")
    assert '"optimizer_steps": 4' in tensorboard_text(trackers, "summary")
    assert trackio_alerts(trackers, "sums") == []
    assert sum(line.startswith("tracker ") for line in told.lines) == 3


def test_a_killed_and_resumed_run_goes_on_in_its_trackers() -> None:
    (Path("slow.py")).write_text(
        "import os, signal\ncalls = 0\n"
        "def reward(completions, **columns):\n"
        "    global calls\n    calls += 1\n"
        "    if calls > 4 and os.environ.get('KILL'): os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return [float(len(text)) for text in completions]\n"
    )
    Path("recipe.yaml").write_text(
        RECIPE.replace("rewards: numeric", "rewards: {kind: function, function: slow.py:reward}")
    )
    killed = command("train", "recipe.yaml", "--out", "runs/mine", cwd=Path.cwd(), environment={"KILL": "1"})
    assert killed.returncode == -signal.SIGKILL
    resumed = command("train", "recipe.yaml", "--out", "runs/mine", "--resume", cwd=Path.cwd())
    assert resumed.returncode == 0, resumed.stderr
    trackers = Path("runs/mine/trackers")
    losses = {record["step"]: record["loss"] for record in records(Path("runs/mine"))}
    assert dict(tensorboard_scalars(trackers)["loss"]) == pytest.approx(losses, rel=1e-6)
    rows = trackio_rows(trackers, "sums")
    assert [step for _, _, step, _ in rows] == [1, 2, 3, 4] and len({run for run, _, _, _ in rows}) == 1
    files = wandb_files(trackers)
    assert len(files) == 2 and len({file.name for file in files}) == 1  # one id
    assert [row["_step"] for file in files for row in wandb_history(file)] == [1, 2, 3, 4]


def test_a_tracker_that_fails_leaves_the_run_as_it_is_without_trackers() -> None:
    told = Told()
    with_one = burnish.train("recipe.yaml", out="runs/one", progress=told, trackers=[{"kind": "wandb"}])  # no account
    without = burnish.train("recipe.yaml", out="runs/none", progress=told, trackers=[])
    assert not (without.out / "trackers").exists()
    [first] = [line for line in told.lines if line.startswith("tracker ")]
    assert "wandb" in first and "goes on without it" in first
    untimed = [
        [{key: value for key, value in record.items() if not key.startswith("timing/")} for record in records(run.out)]
        for run in (with_one, without)
    ]
    assert untimed[0] == untimed[1]


def test_a_missing_package_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(burnish.InputError, match=r'trackio is not installed: `pip install "burnish\[trackers\]"`'):
        burnish.train("recipe.yaml", out="runs/mine")
    assert not Path("runs/mine").exists()


def test_a_run_stopped_by_ctrl_c_ends_its_trackers_as_failed(folder: Path) -> None:
    recipe = RECIPE.replace("steps: 4", "steps: 100000").replace("checkpoint_every: 1\n", "")
    Path("recipe.yaml").write_text(recipe.replace(", {kind: wandb, mode: offline}", ""))
    run = Forked(["train", "recipe.yaml", "--out", "runs/mine"], cwd=folder)
    for line in run.stdout:
        if line.startswith("step 3/"):
            run.send_signal(signal.SIGINT)
            break
    run.stdout.read()
    assert run.wait() == 130
    assert trackio_alerts(Path("runs/mine/trackers"), "sums") == ["run failed"]
    steps = [record["step"] for record in records(Path("runs/mine"))]
    assert [step for step, _ in tensorboard_scalars(Path("runs/mine/trackers"))["loss"]] == steps
