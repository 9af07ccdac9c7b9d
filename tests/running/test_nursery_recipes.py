"""The nursery's recipes do what they say: the model that ships is in its band, and training it helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import burnish
from benchmarks.nursery import pass_rates

RECIPES = Path(__file__).parents[2] / "recipes" / "nursery"


def test_the_shipped_model_solves_some_but_not_all_held_out_tasks() -> None:
    """Between 0.2 and 0.5 at temperature 1: something to reinforce, and something left to gain."""
    rates = pass_rates("nursery:arithmetic-S", str(RECIPES / "grpo.yaml"), samples=2)
    assert 0.2 <= rates["sampled"].estimate <= 0.5
    assert rates["sampled"].estimate < rates["greedy"].estimate < 0.8


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_the_recipe_improves_the_model_on_held_out_tasks(name: str, tmp_path: Path) -> None:
    summary = burnish.train(str(RECIPES / f"{name}.yaml"), out=tmp_path / name).summary
    assert summary["before"]["items"] == 300
    assert summary["comparison"]["difference"]["low"] > 0


def test_the_pretraining_recipe_starts_from_fresh_weights_and_learns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURNISH_CACHE", str(tmp_path / "cache"))
    run = burnish.train(str(RECIPES / "pretrain.yaml"), out=tmp_path / "run", steps=25)
    losses = [json.loads(line)["loss"] for line in (run.out / "metrics.jsonl").read_text().splitlines()]
    assert losses[0] > 4.0  # near the logarithm of 100 characters: it knows nothing yet
    assert losses[-1] < 2.5
    assert run.summary["before"]["format_rate"]["estimate"] < 0.1
