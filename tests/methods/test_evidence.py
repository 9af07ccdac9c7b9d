"""What was measured of the methods travels with the package, and is what the results folder says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from benchmarks import evidence as gathering
from burnish.methods.evidence import PACKAGED, Evidence, evidence_of
from burnish.methods.registry import METHODS
from burnish.methods.rows import ROWS
from tests.cli.commands import ROOT

RESULTS = ROOT / "benchmarks" / "results"


def entry(**changes: Any) -> Evidence:
    values = {
        "study": "s", "method": "grpo", "claim": "c", "metric": "m", "control": "start", "model": "x", "task": "t",
        "verdict": "shown", "effect": 0.2, "interval": (0.1, 0.3), "seeds": 5, "command": "python -m x",
    }  # fmt: skip
    return Evidence.model_validate({**values, **changes})


def test_the_packages_copy_is_what_the_results_say() -> None:
    for path, text in gathering.expected(RESULTS, PACKAGED).items():
        assert path.is_file(), "run `python -m benchmarks.evidence`"
        assert path.read_text("utf-8") == text, f"{path.name} is stale: run `python -m benchmarks.evidence`"


def test_every_entry_is_of_a_method_a_row_and_a_folder_that_are_there() -> None:
    for found in gathering.read_evidence(PACKAGED):
        assert found.method in METHODS and (found.row is None or found.row in ROWS), found.study
        assert (RESULTS / found.study).exists(), found.study


def test_every_method_names_rows_that_are_known_and_what_it_serves() -> None:
    for method in METHODS.values():
        assert method.rows and set(method.rows) <= set(ROWS), f"{method.name}: rows of burnish/methods/rows.py"
        assert method.serves and method.formula, method.name


def test_the_formula_of_a_method_stands_on_its_page() -> None:
    for method in METHODS.values():
        page = " ".join((ROOT / method.page).read_text("utf-8").split())
        for line in method.formula.splitlines():
            assert " ".join(line.split()) in page, (method.name, line)


def test_an_effect_is_the_mean_over_paired_seeds_with_a_t_interval(tmp_path: Path) -> None:
    """By hand: 0.1, 0.2, 0.3 have mean 0.2 and standard error 0.1 / sqrt(3); t(0.975, 2) is 4.3027."""
    folder = tmp_path / "nursery-sft"
    folder.mkdir()
    for seed, difference in enumerate((0.1, 0.2, 0.3)):
        run = {
            "method": "sft", "model": "nursery:arithmetic-S", "recipe_path": "recipes/nursery/sft.yaml", "seed": seed,
            "steps": 4, "environment": {"processor": "P", "threads": 1},
            "comparison": {"difference": {"estimate": difference, "low": 0.0, "high": 1.0}},
            "ledger": {
                "policy": {"flops": 100 * (seed + 1)}, "evaluation": {"flops": 7}, "run": {"timing/seconds": 2.0},
            },
        }  # fmt: skip
        (folder / f"seed-{seed}.json").write_text(json.dumps(run))
    found = gathering.of_runs(folder, tmp_path)
    assert (found.effect, found.seeds, found.over) == (0.2, 3, "seeds")
    half = 4.3027 * 0.1 / 3**0.5
    assert found.interval == pytest.approx((0.2 - half, 0.2 + half), abs=1e-4) and found.verdict == "not shown"
    assert found.cost is not None and (found.cost.flops, found.cost.seconds) == (200, 2.0)  # evaluations left out
    (folder / "seed-1.json").unlink()
    (folder / "seed-2.json").unlink()
    alone = gathering.of_runs(folder, tmp_path)
    assert (alone.verdict, alone.over, alone.interval) == ("untested", "items", (0.0, 1.0))


@pytest.mark.parametrize(
    ("low", "high", "outcome"), [(0.1, 0.3, "shown"), (-0.1, 0.3, "not shown"), (-0.3, -0.1, "opposite")]
)
def test_a_verdict_follows_from_the_interval(low: float, high: float, outcome: str) -> None:
    assert gathering.verdict(low, high) == outcome
    assert entry(effect=(low + high) / 2, interval=(low, high), verdict=outcome).short() == {
        "verdict": outcome, "effect": (low + high) / 2, "interval": [low, high], "seeds": 5, "study": "s",
    }  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {"interval": (-0.1, 0.3)},
        {"verdict": "opposite"},
        {"seeds": 1},
        {"over": "items"},
        {"verdict": "untested"},
        {"interval": None},
        {"effect": None, "interval": None},
    ],
)
def test_a_verdict_that_its_numbers_do_not_carry_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        entry(**changes)


def test_the_stronger_design_comes_first_whatever_came_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = (
        entry(study="a", seeds=3),
        entry(study="b", seeds=9),
        entry(study="c", seeds=5, control="sft", verdict="not shown", effect=0.0, interval=(-0.1, 0.1)),
        entry(study="d", method="sft", seeds=99),
    )
    monkeypatch.setattr("burnish.methods.evidence.all_evidence", lambda: found)
    assert [e.study for e in evidence_of("grpo")] == ["c", "b", "a"]
