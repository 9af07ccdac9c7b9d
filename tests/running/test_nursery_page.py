"""docs/nursery.md, models.yaml and the stored results say the same of the nursery's models."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import nursery as benchmark
from burnish.models.nursery import SIZES, parameters, pretrained_names
from burnish.models.nursery_list import PRETRAINED, RECIPES, nursery_entries
from burnish.nursery import WEIGHTS, list_nursery

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "nursery.md").read_text("utf-8")
RATES: dict[str, dict[str, Any]] = json.loads((ROOT / benchmark.RESULTS).read_text("utf-8"))
GRPO: dict[str, Any] = json.loads((ROOT / "benchmarks" / "results" / "nursery" / "grpo.json").read_text("utf-8"))


def between(mark: str) -> list[str]:
    found = re.search(rf"<!-- {mark}: begin -->\n(.*)<!-- {mark}: end -->", PAGE, re.S)
    assert found is not None
    return found[1].splitlines()


def test_the_page_has_the_table_of_the_stored_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert between("table") == benchmark.table()


def test_every_model_that_ships_is_measured_and_the_recipes_have_the_same_figures() -> None:
    assert set(pretrained_names()) <= set(RATES)
    assert set(RATES) == {name for name, entry in nursery_entries().items() if entry.sampled and entry.greedy}
    listed = yaml.safe_load((RECIPES / "models.yaml").read_text("utf-8"))
    for name, found in RATES.items():
        for key in ("sampled", "greedy"):
            assert listed[name][key] == pytest.approx([found[key][p] for p in ("estimate", "low", "high")], abs=6e-4)
            assert found[key]["low"] <= found[key]["estimate"] <= found[key]["high"]
        assert found["steps"] == listed[name]["steps"] and found["parameters"] == parameters(name.rpartition("-")[2])
    assert [model.name for model in list_nursery()] == list(listed)


def test_the_rates_are_those_of_the_weights_that_ship() -> None:
    for name in pretrained_names():
        digest = hashlib.sha256((PRETRAINED / name / WEIGHTS).read_bytes()).hexdigest()
        assert digest.startswith(RATES[name]["weights"]), f"python -m benchmarks.nursery {name} --write"


def test_every_family_is_there_in_every_size() -> None:
    rows = {line.split("|")[1].strip(" `"): line for line in between("table")[2:]}
    for family in benchmark.GRID:
        for size in SIZES:
            assert f"{family}-{size}" in RATES and "ships" in rows[f"{family}-{size}"]


def test_models_are_in_the_band_or_the_page_names_them() -> None:
    """Between 0.2 and 0.5 at temperature 1; what lies outside is listed in one sentence."""
    sentence = re.search(r"Outside of the aim lie (.*?)\.\n", PAGE, re.S)
    named = set(re.findall(r"`([\w-]+)`", sentence[1])) if sentence else set()
    assert named == {name for name, found in RATES.items() if not 0.2 <= found["sampled"]["estimate"] <= 0.5}


def test_reinforcement_learning_raised_the_reward_with_every_seed_in_time() -> None:
    assert [run["seed"] for run in GRPO["runs"]] == [0, 1, 2, 3, 4]
    for run in GRPO["runs"]:
        assert run["last_third"] > run["first_third"] and run["seconds"] <= GRPO["limit_seconds"] == 30
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in between("grpo")[2:]]
    assert rows == [
        [str(r["seed"]), f"{r['first_third']:.3f}", f"{r['last_third']:.3f}", f"{r['seconds']:.0f} s"]
        for r in GRPO["runs"]
    ]
