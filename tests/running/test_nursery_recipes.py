"""The nursery's recipes do what they say: the models that ship are as recorded, and training them helps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import burnish
from burnish.models.nursery import fresh_folder, pretrained_names
from burnish.models.nursery_list import PRETRAINED, nursery_entries
from burnish.models.nursery_list import RECIPES as MADE_BY
from burnish.running.progress import QuietProgress

RECIPES = Path(__file__).parents[2] / "recipes" / "nursery"


@pytest.mark.parametrize("name", pretrained_names())
def test_a_shipped_model_does_as_many_of_its_held_out_tasks_as_is_recorded(name: str) -> None:
    """On 40 tasks: the interval of the recorded rate and the one measured here have a number in common."""
    found = burnish.nursery_rates(name, samples=4, limit=40)
    for key, evaluation in found.measured.items():
        recorded, measured = found.recorded[key], evaluation.accuracy
        assert recorded is not None and measured is not None
        assert measured.low <= recorded.high and recorded.low <= measured.high, (key, measured, recorded)
    assert len(found.measured["sampled"].items) == 160
    if name.startswith("hackable"):
        assert 0.01 <= found.measured["sampled"].notes["components"]["hack"] <= 0.35


@pytest.mark.parametrize("name", ["sft", "grpo"])
def test_the_recipe_improves_the_model_on_held_out_tasks(name: str, tmp_path: Path) -> None:
    summary = burnish.train(str(RECIPES / f"{name}.yaml"), out=tmp_path / name).summary
    assert summary["before"]["items"] == 300
    assert summary["comparison"]["difference"]["low"] > 0


# ---------------------------------------------------------------- how the models were made


FAMILIES = sorted({entry.family for entry in nursery_entries().values()})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pretraining_recipe_starts_where_it_says_and_repeats_to_the_bit(family: str, tmp_path: Path) -> None:
    """Steps like the first of a build, on fewer tasks: near the logarithm of 100 characters, and the same bits the
    second time."""
    entry = nursery_entries()[f"{family}-S"]
    short = {"steps": 2, "checkpoint_every": 0, "prompts_per_step": 8, "evaluation": None}
    where = "environment" if "\nenvironment:" in entry.recipe.read_text("utf-8") else "data.family"
    recipe = burnish.load_recipe(entry.recipe, [*entry.overrides, f"{where}.count=64"]).model_copy(update=short)
    runs = [burnish.train(recipe, out=tmp_path / name, progress=QuietProgress()) for name in ("one", "two")]
    lines = [(run.out / "metrics.jsonl").read_text("utf-8").splitlines() for run in runs]
    losses = [[json.loads(line)["loss"] for line in of_run] for of_run in lines]
    assert losses[0] == losses[1]
    if recipe.model.path == "nursery:S":  # a fresh network
        assert 4.0 < losses[0][0] < 5.5
    weights = [(run.out / "final" / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1] != (fresh_folder("S") / "model.safetensors").read_bytes()


def test_every_model_has_its_recipe_and_every_recipe_a_model() -> None:
    entries = nursery_entries()
    assert set(pretrained_names()) <= set(entries)
    assert {path.name for path in PRETRAINED.iterdir()} == set(pretrained_names())
    files = {path for path in MADE_BY.glob("*.yaml") if path.name != "models.yaml"}
    assert {entry.recipe for entry in entries.values()} == files
    for entry in entries.values():
        recipe = burnish.load_recipe(entry.recipe, entry.overrides)
        assert recipe.method == "sft" and recipe.threads == 1 and recipe.evaluation is not None
        assert recipe.model.path == entry.changes.get("model.path", f"nursery:{entry.size}")
        assert recipe.steps == entry.steps


# ---------------------------------------------------------------- reinforcement learning


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
