"""Recipes that name an environment: what contradicts each other is refused, and a run in one does what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnish import train
from burnish.errors import InputError
from burnish.models.nursery import pretrained_names
from burnish.running.assemble import assemble
from burnish.running.config import load_recipe, recipe_from_mapping
from burnish.running.progress import QuietProgress
from burnish.traces.store import read_groups

ROOT = Path(__file__).parents[2]
GRPO: dict[str, Any] = {
    "method": "grpo", "model": {"path": "nursery:S"}, "environment": {"kind": "lookup"}, "prompts_per_step": 4,
}  # fmt: skip
SFT: dict[str, Any] = {**GRPO, "method": "sft"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({**GRPO, "data": {"path": "x"}}, "data: unused, since the world lookup has tasks of its own"),
        ({**SFT, "data": {"path": "x"}}, "data: unused, since the world lookup has tasks of its own"),
        ({**GRPO, "rewards": "numeric"}, "rewards: unused, since the environment judges"),
        ({**GRPO, "environment": {"kind": "custom", "path": "a.py:B"}}, "data is missing"),
        ({**GRPO, "environment": {"kind": "custom", "path": "a.py"}}, 'path: write "file.py:Name"'),
        ({**SFT, "environment": {"kind": "custom", "path": "a.py:B"}, "data": {"path": "x"}}, "oracle to imitate"),
        ({**GRPO, "environment": {"kind": "lookups"}}, "given 'lookups', did you mean 'lookup'"),
        ({**GRPO, "environment": {"kind": "lookup", "cheap": "x"}}, "environment.cheap belongs to kind hackable"),
        ({**GRPO, "environment": {"kind": "hackable", "shown": 0.5}}, "environment.shown: for supervised training"),
        ({**GRPO, "environment": None, "data": {"path": "x"}}, "rewards is missing"),
        ({**GRPO, "environment": None, "rewards": "numeric"}, "data is missing"),
        (
            {**GRPO, "environment": None, "data": {"path": "x"}, "rewards": "numeric", "episodes": {"turns": 3}},
            "episodes: unused without an environment",
        ),
        ({**GRPO, "deterministic": True, "episodes": {"seconds": 3}}, "episodes.seconds: what it cuts off depends on"),
        ({**GRPO, "environment": {"kind": "lookup", "count": 3}}, "a step takes 4 prompts, but data has only 3"),
        ({**SFT, "episodes": {"turns": 3}}, "episodes"),
        ({**GRPO, "episodes": {"turns": 3, "branch": {"turn": 3}}}, "none parts after turn 3"),
        ({**GRPO, "evaluation": {}}, "evaluation.data is missing"),
        ({**GRPO, "evaluation": {"data": {"path": "x"}, "environment": {"kind": "grid"}}}, "given twice"),
        ({**GRPO, "evaluation": {"environment": {"kind": "grid"}, "correct": {"mode": "exact"}}}, "correct: unused"),
    ],
)
def test_keys_that_contradict_an_environment_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        recipe_from_mapping(values)
    assert words in str(caught.value)


def test_held_out_tasks_that_are_trained_on_are_refused() -> None:
    values = {**GRPO, "evaluation": {"environment": {"kind": "lookup"}}}
    with pytest.raises(InputError, match="held-out tasks are also trained on"):
        assemble(recipe_from_mapping(values))


@pytest.mark.parametrize("recipe", sorted((ROOT / "recipes" / "nursery").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_recipe_of_the_nursery_can_be_put_together(recipe: Path) -> None:
    loaded = load_recipe(recipe, ["threads=null"])
    if loaded.environment is not None:  # fewer tasks than it names, to be quick
        loaded = load_recipe(recipe, ["threads=null", "environment.count=128", "evaluation.environment.count=32"])
    parts = assemble(loaded)
    assert (parts.trial is not None) == (parts.recipe.environment is not None)


@pytest.mark.parametrize("world", ["lookup", "grid", "hackable-lookup", "hackable-grid"])
def test_each_world_has_a_nursery_model_that_can_act_in_it(world: str, tmp_path: Path) -> None:
    """Its attempts call tools that there are, and some succeed while others do not."""
    assert f"{world}-S" in pretrained_names()
    path = ROOT / "recipes" / "nursery" / f"{world}-grpo.yaml"
    recipe = load_recipe(path, ["steps=1", "evaluation=null", "threads=1", "environment.count=256"])
    train(recipe, out=tmp_path / "run", progress=QuietProgress())
    [record] = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    true = record.get("reward/true", record["reward"])
    assert 0.1 < true < 0.75 and record["turns"] > 1.5
    if world.startswith("hackable"):
        assert 0.02 < record["reward/hack"] < 0.6
    [file] = (tmp_path / "run" / "traces").glob("*.parquet")
    groups = read_groups(file)
    assert {span.name for group in groups for member in group.members for span in member.trace.spans} == {"turn"}
