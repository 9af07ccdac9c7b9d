"""Promise E10: a key that contradicts another, or that another leaves without an effect, is refused with the fix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from pydantic import ValidationError

from burnish.errors import InputError
from burnish.learning.optimizers import make_optimizer
from burnish.learning.spec import OptimizerSpec
from burnish.methods.grpo import GrpoRecipe
from burnish.methods.registry import DECLARED
from burnish.running.config import load_recipe, recipe_from_mapping, resolved_yaml
from burnish.running.contradictions import (
    OPTIMIZER_KEYS,
    beyond_the_run,
    check_recipe,
    check_tasks,
    contradictions,
    optimizer_steps,
)
from burnish.tasks import Task

ROOT = Path(__file__).parents[2]
RECIPES = [
    path for path in sorted((ROOT / "recipes").rglob("*.yaml")) if not {"pipelines", "studies"} & set(path.parts)
]
BASES: dict[str, dict[str, Any]] = {
    "sft": {"method": "sft", "steps": 20, "model": {"path": "m"}, "data": {"path": "d.jsonl"}},
    "grpo": {
        "method": "grpo", "steps": 20, "model": {"path": "m"}, "data": {"family": "arithmetic"},
        "rewards": {"kind": "function", "function": "f.py:r"},
    },
}  # fmt: skip
EVALUATION = ["evaluation.data.family={kind: arithmetic, split: heldout}"]

REFUSED: list[tuple[str, list[str], str, list[str]]] = [
    # method, changes, what is said of them, and changes nearby that are right
    ("sft", ["checkpoint_every=0", "keep_checkpoints=3"], "keep_checkpoints: unused: checkpoint_every is 0",
     ["checkpoint_every=5", "keep_checkpoints=3"]),
    ("sft", ["guards.silent_steps=9"], "it belongs to methods that sample (grpo)", ["guards.stall_seconds=9"]),
    ("sft", ["trackers=[wandb, trackio, wandb]"], "trackers.2: wandb is there twice, first as trackers.0",
     ["trackers=[wandb, trackio]"]),
    ("sft", ["trackers=[{kind: tensorboard, project: p}]"], "project: unused by a tracker of kind tensorboard",
     ["trackers=[{kind: wandb, project: p}]"]),
    # learning
    ("sft", ["optimizer.schedule=linear", "optimizer.decay_steps=5", "optimizer.warmup_steps=5"],
     "decay_steps: the decay would end at optimizer step 5, within the warm-up of 5",
     ["optimizer.schedule=linear", "optimizer.decay_steps=6", "optimizer.warmup_steps=5"]),
    ("sft", ["optimizer.schedule=cosine", "optimizer.final_ratio=1"], "final_ratio: 1 leaves nothing to decay",
     ["optimizer.schedule=cosine", "optimizer.final_ratio=0.9"]),
    ("sft", ["optimizer.name=sgd", "optimizer.betas=[0.5,0.5]"], "optimizer.betas: sgd has no betas; remove it",
     ["optimizer.name=nadam", "optimizer.betas=[0.5,0.5]"]),
    ("sft", ["optimizer.momentum=0.5"], "optimizer.momentum: adamw has no momentum",
     ["optimizer.name=sgd", "optimizer.momentum=0.5"]),
    ("sft", ["prompts_per_step=2", "learner.optimizer_steps=3"], "a step's 2 prompts cannot be split into 3 optimizer",
     ["prompts_per_step=3", "learner.optimizer_steps=3"]),
    ("sft", ["learner.share_prefixes=false"], "learner.share_prefixes: unused: each demonstration is a sequence", []),
    ("sft", ["model.adapter.dropout=0.1"], "model.adapter.dropout: dropout is always off", ["model.adapter={}"]),
    # data
    ("grpo", ["prompts_per_step=9", "data.family.count=8"], "prompts_per_step: a step takes 9 prompts, but data has",
     ["prompts_per_step=8", "data.family.count=8"]),
    ("sft", ["data.limit=7"], "data.limit: a step takes 8 prompts, but data has only 7", ["data.limit=8"]),
    ("sft", ["data.style=text"], "data.style: text needs model.template: plain",
     ["data.style=text", "model.template=plain"]),
    ("sft", [*EVALUATION, "evaluation.data.style=text"], "evaluation.data.style: text needs model.template: plain", []),
    ("sft", ["evaluation.data.path=e.jsonl", "evaluation.data.completion=c"],
     "evaluation.data.completion: answers are compared", ["evaluation.data.path=e.jsonl", "data.completion=c"]),
    ("sft", ["data.messages=m", "data.prompt=p"], "messages: unused, since `prompt` or", ["data.messages=m"]),
    ("sft", ["data.messages=m", "data.template='{q}'"], "messages: unused, since `prompt` or `template`", []),
    ("sft", ["data.messages=m", "data.completion=c"], "completion: unused, since a conversation",
     ["data.prompt=m", "data.completion=c"]),
    ("sft", ["data.answer=a"], "data.answer: it is for whoever judges samples; sft does not use it",
     ["data.answer=null"]),
    ("grpo", ["data.family.negative=true"], 'negative: unused without the operation "-"',
     ["data.family.negative=true", "data.family.operations=['-']"]),
    ("grpo", ["data.family.shuffle=true"], "there is no key data.family.shuffle", []),
    ("grpo", ["data.shuffle=true"], "shuffle: only for rows of a file, unused with a family", []),
    ("sft", ["data.window={low: 0.1}"], "data.window.column: sft does not sample, so no pass rates are measured",
     ["data.window={low: 0.1, column: rate}"]),
    ("grpo", ["data.family=null", "data.mix=[{path: a, style: text}, {path: b}]"],
     "data.mix.0.style: text needs model.template: plain", ["data.window={low: 0.1}"]),
    ("sft", ["data.path=null", "data.mix=[{path: a, answer: x}, {path: b}]"],
     "data.mix.0.answer: it is for whoever judges samples", ["data.path=null", "data.mix=[{path: a}, {path: b}]"]),
    ("grpo", ["data.family=null", "data.mix=[{path: a, completion: x}, {path: b}]"],
     "data.completion is for demonstrations", ["data.family=null", "data.mix=[{path: a, weight: 2}, {path: b}]"]),
    # rewards and samples
    ("grpo", ["rewards={rewards: [{kind: numeric}, {kind: format}], concurrency: 3}"],
     "rewards.concurrency: unused: ",
     ["rewards.concurrency=3"]),
    ("grpo", ["rewards.weight=0"], "rewards: every weight is 0, so every reward is 0",
     ["rewards.weight=0", "options.entropy=0.1"]),
    ("grpo", ["sampling.top_k=1"], "sampling.top_k: 1 keeps one token, so samples of a prompt are all alike",
     ["sampling.top_k=2"]),
    ("grpo", ["sampling.min_p=1"], "sampling.min_p: 1 keeps one token", ["sampling.min_p=0.9"]),
    ("grpo", ["samples_per_prompt=1"], "samples_per_prompt: a group of one has nothing to compare",
     ["samples_per_prompt=1", "options.advantage=reinforce_pp"]),
    ("grpo", ["options.advantage=max_at_k", "options.k=9"], "options.k: the best of 9 is asked for of 8 samples",
     ["options.advantage=max_at_k", "options.k=8"]),
    ("grpo", ["options.old=learner", "options.clip_low=0.3"], "options.clip_low: unused: with old: learner, one pass",
     ["options.old=learner", "options.clip_low=0.3", "options.passes=2"]),
    ("grpo", ["options.old=learner", "options.clip_high=0.3"], "options.clip_high: unused: with old: learner",
     ["options.old=learner", "options.clip_high=0.3", "learner.optimizer_steps=2"]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "changes", "message", "right"), REFUSED, ids=lambda value: str(value)[:60])
def test_a_key_without_an_effect_is_refused_with_the_fix(
    method: str, changes: list[str], message: str, right: list[str]
) -> None:
    with pytest.raises(InputError) as error:
        recipe_from_mapping(BASES[method], changes)
    assert message in str(error.value)
    recipe_from_mapping(BASES[method], right)


def test_a_contradiction_is_placed_and_all_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("method: sft\nmodel: {path: m}\ndata: {path: d}\noptimizer:\n  eps: 0.5\nkeep_checkpoints: 9\n")
    with pytest.raises(InputError) as error:
        load_recipe(path, ["learner.optimizer_steps=9", "checkpoint_every=0", "optimizer.name=sgd"])
    told = [line.replace(f"{tmp_path}/", "").partition(": sgd")[0][:48] for line in str(error.value).splitlines()]
    assert told == [
        "recipe.yaml, line 6: keep_checkpoints: unused: c",
        "recipe.yaml, line 5: optimizer.eps",
        "command line: learner.optimizer_steps: a step's ",
    ]


def test_what_a_run_is_too_short_for_is_told_and_not_refused() -> None:
    """A recipe is tried out with a few steps; the recipe that such a run writes down loads again."""
    changes = ["traces_every=21", "checkpoint_every=22", "guards.silent_steps=23", "evaluation.every=24", *EVALUATION]
    changes += ["optimizer.warmup_steps=81", "options.passes=2", "learner.optimizer_steps=2"]
    recipe = recipe_from_mapping(BASES["grpo"], changes)
    told = beyond_the_run(recipe)
    assert [line.partition(", and the run has ")[0] for line in told] == [
        "evaluation.every is 24", "traces_every is 21", "checkpoint_every is 22", "guards.silent_steps is 23",
        "optimizer.warmup_steps is 81",
    ]  # fmt: skip
    assert "20 steps: held-out tasks are evaluated before and after alone" in told[0]
    assert "80 optimizer steps: the learning rate never reaches its peak" in told[-1]
    just = ["traces_every=20", "checkpoint_every=20", "guards.silent_steps=20", "evaluation.every=20", *EVALUATION]
    just += ["optimizer.warmup_steps=80", "options.passes=2", "learner.optimizer_steps=2"]
    assert beyond_the_run(recipe_from_mapping(BASES["grpo"], just)) == []
    assert recipe_from_mapping(yaml.safe_load(resolved_yaml(recipe))) == recipe


@pytest.mark.parametrize("steps", [1, 2, 1000])
@pytest.mark.parametrize("method", DECLARED)
def test_a_default_is_never_at_fault(method: str, steps: int, tmp_path: Path) -> None:
    """However short the run, and with every default written out."""
    recipe = recipe_from_mapping({**BASES[method], "steps": steps}, EVALUATION)
    assert beyond_the_run(recipe) == []
    (tmp_path / "resolved.yaml").write_text(resolved_yaml(recipe))
    assert load_recipe(tmp_path / "resolved.yaml") == recipe


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shipped_recipes_have_no_contradictions(path: Path) -> None:
    assert contradictions(load_recipe(path)) == {}


def test_a_recipe_built_in_python_can_be_checked() -> None:
    values = recipe_from_mapping(BASES["grpo"]).model_dump()
    recipe = GrpoRecipe.model_validate({**values, "learner": {"optimizer_steps": 9}})
    with pytest.raises(InputError, match="learner.optimizer_steps: a step's 8 prompts cannot be split into 9"):
        check_recipe(recipe)
    check_recipe(GrpoRecipe.model_validate(values))


def _rows(count: int) -> list[Task]:
    return [Task(prompt=str(number)) for number in range(count)]


def test_a_step_that_would_take_a_row_twice_is_refused() -> None:
    recipe = recipe_from_mapping(BASES["sft"])
    with pytest.raises(
        InputError, match="prompts_per_step: a step takes 8 prompts, but data has only 7.*set prompts_per_step to 7"
    ):
        check_tasks(recipe, _rows(7))
    check_tasks(recipe, _rows(8))


@pytest.mark.parametrize("name", OPTIMIZER_KEYS)
def test_the_table_of_optimizers_says_what_torch_says(name: str) -> None:
    others = {"betas": (0.5, 0.6), "eps": 1e-3, "momentum": 0.5}
    for key, value in others.items():
        spec = OptimizerSpec.model_validate({"name": name, key: value})
        if key in OPTIMIZER_KEYS[name]:
            assert make_optimizer(spec, [torch.zeros(1)], 0.1).defaults[key] == value
        else:
            with pytest.raises(InputError, match=f"has no '{key}'"):
                make_optimizer(spec, [torch.zeros(1)], 0.1)


def test_the_table_of_optimizers_has_them_all() -> None:
    with pytest.raises(ValidationError):
        OptimizerSpec.model_validate({"name": "none of them"})
    assert all(OptimizerSpec.model_validate({"name": name}) for name in OPTIMIZER_KEYS)
    allowed = OptimizerSpec.model_json_schema()["properties"]["name"]["enum"]
    assert set(allowed) == set(OPTIMIZER_KEYS)


def test_the_optimizer_steps_of_a_run_are_those_it_takes() -> None:
    changes = ["options.passes=3", "learner.optimizer_steps=2", "prompts_per_step=2"]
    assert optimizer_steps(recipe_from_mapping(BASES["grpo"], changes)) == 20 * 3 * 2
