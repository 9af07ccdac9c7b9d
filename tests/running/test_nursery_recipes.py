"""The nursery's recipes do what they say: the model that ships is in its band, and training it helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import burnish
from benchmarks.nursery import pass_rates
from benchmarks.worlds import pass_rates as rates_in_a_world

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


# ---------------------------------------------------------------- worlds


@pytest.mark.parametrize("world", ["lookup", "grid", "hackable-lookup", "hackable-grid"])
def test_the_shipped_model_of_a_world_does_some_of_its_held_out_tasks(world: str) -> None:
    """At temperature 1, on 40 tasks: something to reinforce, something left to gain, and now and then a hack."""
    recipe = str(RECIPES / f"{world}-grpo.yaml")
    rates = rates_in_a_world(f"nursery:{world}-S", recipe, samples=4, changes=["evaluation.environment.count=40"])
    found = rates["sampled"]
    assert found.accuracy is not None and 0.15 <= found.accuracy.estimate <= 0.7
    assert len(found.items) == 160
    if world.startswith("hackable"):
        assert 0.01 <= found.notes["components"]["hack"] <= 0.35


def rewards_of(folder: Path, name: str = "reward") -> tuple[float, float]:
    """The mean over a run's first third of steps, and over its last."""
    values = [json.loads(line)[name] for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    third = len(values) // 3
    return sum(values[:third]) / third, sum(values[-third:]) / third


def test_reinforcement_learning_with_tools_raises_the_reward(tmp_path: Path) -> None:
    run = burnish.train(str(RECIPES / "lookup-grpo.yaml"), out=tmp_path / "run", steps=12, evaluation=None)
    first, last = rewards_of(run.out)
    assert last - first > 0.15


def test_reinforcement_learning_finds_the_hack(tmp_path: Path) -> None:
    """The share of attempts that are paid for nothing rises, and the step's record counts them."""
    run = burnish.train(str(RECIPES / "hackable-lookup-grpo.yaml"), out=tmp_path / "run", steps=12, evaluation=None)
    first, last = rewards_of(run.out, "reward/hack")
    assert last - first > 0.05
