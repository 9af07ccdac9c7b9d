"""Ratios are compared with committed ones: worse and much better both fail, and so does what is not there."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.studies.bench.compare import CHECKED, compare, settled
from burnish.studies.bench.results import BenchResult
from tests.cli.commands import burnish as command
from tests.studies.made_up import MACHINE, made_up


def toy(ratio: float, steps: float = 2.0, **more: Any) -> BenchResult:
    return made_up("grpo-toy", [{"ours": 1.0, "trl": ratio}], steps={"ratio": steps}, **more)


def learner(floor_ratio: float) -> BenchResult:
    return made_up("learner", floor={"seconds": 1.0, "phases": {}}, seconds=floor_ratio)


def verdicts(now: BenchResult, base: BenchResult, *figures: str, band: float = 2.0) -> list[str]:
    found = compare({now.name: now}, {base.name: base}, band, {now.name: figures})
    assert found.passed == all(row.verdict == "within" for row in found.rows)
    return [row.verdict for row in found.rows]


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(4.0, "within"), (2.1, "within"), (7.9, "within"), (1.9, "worse"), (8.1, "suspiciously better")],
)
def test_a_ratio_may_move_by_the_band_either_way_and_no_further(ratio: float, verdict: str) -> None:
    assert verdicts(toy(ratio), toy(4.0), "ratio") == [verdict]


def test_of_a_floor_ratio_less_is_better() -> None:
    assert verdicts(learner(2.5), learner(1.2), "floor_ratio") == ["worse"]
    assert verdicts(learner(0.5), learner(1.2), "floor_ratio") == ["suspiciously better"]
    assert verdicts(learner(1.5), learner(1.2), "floor_ratio") == ["within"]


def test_each_figure_of_a_result_is_judged_by_itself() -> None:
    assert verdicts(toy(4.0, steps=0.9), toy(4.0, steps=2.0), "ratio", "steps.ratio") == ["within", "worse"]


def test_a_figure_that_is_missing_on_either_side_does_not_pass() -> None:
    there = {"grpo-toy": toy(4.0)}
    for now, base, why in (({}, there, "was not measured"), (there, {}, "--update adds it")):
        found = compare(now, base, 2.0, {"grpo-toy": ("ratio",)})
        assert (
            not found.passed
            and [row.verdict for row in found.rows] == ["missing"]
            and why in str(found).replace("`", "")
        )


def test_other_work_is_not_compared() -> None:
    assert verdicts(toy(4.0), toy(4.0, work="less work"), "ratio") == ["other work"]


def test_another_machine_is_compared_and_named() -> None:
    elsewhere = toy(4.0, machine={**MACHINE, "cores": 64})
    found = compare({"grpo-toy": toy(3.0)}, {"grpo-toy": elsewhere}, 2.0, {"grpo-toy": ("ratio",)})
    assert found.passed and "another machine: cores 2, committed 64" in str(found)
    assert verdicts(toy(1.0), elsewhere, "ratio") == ["worse"]


def everything(scale: float = 1.0) -> list[BenchResult]:
    """A result of every benchmark that is checked; `scale` above 1 is slower."""
    return [
        toy(4.0 / scale, 2.0 / scale),
        learner(1.2 * scale),
        made_up("engine-group", [{"ours": 200.0 / scale, "generate": 100.0}]),
        made_up("import", over_python={"import": 1.5 * scale, "help": 5.0 * scale}),
    ]


def folder_of(folder: Path, results: list[BenchResult]) -> Path:
    for result in results:
        result.save(folder / f"{result.name}.json")
    return folder


def test_the_command_ends_with_status_1_where_a_ratio_left_the_band(tmp_path: Path) -> None:
    base = folder_of(tmp_path / "base", everything())
    for scale, status, words in ((1.3, 0, {"within"}), (3.0, 1, {"worse"}), (0.3, 1, {"suspiciously better"})):
        now = folder_of(tmp_path / f"now-{scale}", everything(scale))
        done = command("bench", "compare", str(now), "--baselines", str(base), "--json")
        assert done.returncode == status, done.stderr
        found = json.loads(done.stdout)
        assert {row["verdict"] for row in found["rows"]} == words and found["passed"] == (status == 0)
        assert len(found["rows"]) == sum(map(len, CHECKED.values()))
    wider = command("bench", "compare", str(tmp_path / "now-3.0"), "--baselines", str(base), "--band", "4")
    assert wider.returncode == 0, wider.stdout


def test_an_update_makes_what_was_measured_the_baseline(tmp_path: Path) -> None:
    now, base = folder_of(tmp_path / "now", everything(3.0)), tmp_path / "base"
    assert burnish.bench_compare(now, baselines=base, update=True).passed
    assert sorted(file.stem for file in base.glob("*.json")) == sorted(CHECKED)
    assert not burnish.bench_compare(folder_of(tmp_path / "then", everything()), baselines=base).passed


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(burnish.InputError, match="no such folder; run this in a checkout"):
        burnish.bench_compare(tmp_path, baselines=tmp_path / "none")
    with pytest.raises(burnish.InputError, match="band must be above 1"):
        burnish.bench_compare(tmp_path, baselines=tmp_path, band=1.0)
    (tmp_path / "learner.json").write_text('{"name": "learner"}')
    with pytest.raises(burnish.InputError, match=r"learner\.json is no result of a benchmark: it lacks unit"):
        burnish.bench_compare(tmp_path, baselines=tmp_path)


@pytest.mark.parametrize(("again", "passed", "runs"), [([4.0], True, 1), ([1.0, 4.1], True, 2), ([1.0, 1.0], False, 2)])
def test_what_is_outside_the_band_is_measured_again(again: list[float], passed: bool, runs: int) -> None:
    """A busy moment passes, a regression stays; what was within is left alone."""
    committed = {result.name: result for result in everything()}
    asked: list[list[str]] = []

    def run(names: Collection[str]) -> dict[str, BenchResult]:
        asked.append(list(names))
        return {"grpo-toy": toy(again[len(asked) - 1])}

    found = settled({**committed, "grpo-toy": toy(1.0)}, {**committed, "grpo-toy": toy(4.0)}, 2.0, 3, run)
    assert (found.passed, asked) == (passed, [["grpo-toy"]] * runs)


def test_without_further_tries_the_first_measurement_counts() -> None:
    def run(names: Collection[str]) -> dict[str, BenchResult]:
        raise AssertionError("nothing is to be measured again")

    committed = {result.name: result for result in everything()}
    assert not settled({**committed, "grpo-toy": toy(1.0)}, {**committed, "grpo-toy": toy(4.0)}, 2.0, 1, run).passed
