"""`python -m benchmarks.rlvr`: every seed once, results that say what made them, pictures of what is there."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks import rlvr
from benchmarks.curves import picture
from burnish.errors import InputError

RECIPE = """
method: grpo
steps: 2
prompts_per_step: 2
samples_per_prompt: 4
model: {path: "nursery:arithmetic-S", dtype: float32}
data: {family: {kind: arithmetic, digits: [2], count: 40, question: "{a}{op}{b}="}}
sampling: {max_tokens: 6}
rewards: numeric
optimizer: {lr: 1e-4}
threads: 1
evaluation:
  data: {family: {kind: arithmetic, digits: [2], count: 10, split: heldout, question: "{a}{op}{b}="}}
  max_tokens: 6
"""


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["rlvr", *map(str, arguments)])
    rlvr.main()


def test_a_seed_is_run_once_for_each_recipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("recipes/mine/sums.yaml")
    path.parent.mkdir(parents=True)
    path.write_text(RECIPE)
    given = (path, "--seeds", 0, 1, "--results", "results", "--pictures", "pictures")
    _main(monkeypatch, *given)
    files = sorted(Path("results/mine-sums").iterdir())
    assert [file.name for file in files] == ["seed-0.json", "seed-1.json"]
    run = json.loads(files[1].read_text())
    assert (run["seed"], run["recipe_path"], run["model"]) == (1, str(path), "nursery:arithmetic-S")
    assert {"burnish", "torch", "transformers"} <= run["environment"].keys()
    assert [step["step"] for step in run["steps_recorded"]] == [1, 2]
    assert {"reward", "reward/numeric", "length", "truncated"} <= run["steps_recorded"][0].keys()
    assert run["before"]["items"] == 10 and "difference" in run["comparison"]
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| mine-sums |")]
    assert len(rows) == 2 and f"| {run['before']['accuracy']['estimate']:.3f} |" in rows[1]
    assert ElementTree.parse("pictures/mine-sums.svg").getroot().tag.endswith("svg")

    before = [file.stat().st_mtime_ns for file in files]
    _main(monkeypatch, *given)
    assert [file.stat().st_mtime_ns for file in files] == before
    path.write_text(RECIPE.replace("steps: 2", "steps: 1"))
    _main(monkeypatch, *given, "--no-training")
    assert [file.stat().st_mtime_ns for file in files] == before
    _main(monkeypatch, *given)
    assert [len(json.loads(file.read_text())["steps_recorded"]) for file in files] == [1, 1]


def test_nothing_to_draw_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"holds no seed-N.json: run without --no-training"):
        _main(monkeypatch, "sums.yaml", "--results", tmp_path, "--pictures", tmp_path, "--no-training")


def _run(*rewards: float | None) -> dict[str, Any]:
    return {"steps_recorded": [{"step": i + 1, "reward": value} for i, value in enumerate(rewards)]}


def test_a_step_without_a_reward_breaks_the_line_and_the_mean_is_over_the_seeds() -> None:
    assert math.isnan(rlvr.rewards(_run(0.5, None))[1])
    drawn = ElementTree.fromstring(picture("a < b", [_run(0, 1, None, 1, 1), _run(0, 0, 1, 1, 1)]))
    lines = [e.get("points", "").split() for e in drawn.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(line) for line in lines] == [2, 2, 5, 2, 2]  # a broken one, a whole one, the broken mean
    low, high = (float(point.split(",")[1]) for point in lines[0])
    assert float(lines[3][1].split(",")[1]) == (low + high) / 2
    assert "a < b" in [e.text for e in drawn.iter("{http://www.w3.org/2000/svg}text")]
