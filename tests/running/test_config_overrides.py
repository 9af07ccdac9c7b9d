"""KEY=VALUE on the command line: what it sets, takes away or replaces, and what is refused (promise E10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.running.written import GRPO, fails, load


def test_overrides_change_keys_and_write_out_short_forms(tmp_path: Path) -> None:
    recipe: Any = load(
        tmp_path, GRPO, "optimizer.lr=1e-5", "data.family.digits=[2,3]", "rewards.tolerance=0.5",
        "model.adapter.rank=4", "evaluation.data.family=arithmetic", "seed=7", "model.path=a=b",
    )  # fmt: skip
    assert recipe.optimizer.lr == 1e-5 and recipe.data.family.digits == (2, 3)
    assert recipe.rewards.rewards[0].tolerance == 0.5 and recipe.model.adapter.rank == 4
    assert recipe.evaluation.data.family.kind == "arithmetic" and recipe.seed == 7 and recipe.model.path == "a=b"


@pytest.mark.parametrize("rewards", ["numeric", "[numeric]", "{kind: numeric}", "{rewards: [numeric]}"])
def test_an_entry_of_the_rewards_can_be_overridden(tmp_path: Path, rewards: str) -> None:
    text = GRPO.replace("{kind: numeric}", rewards)
    if rewards == "{rewards: [numeric]}":
        text = text.replace("[numeric]", "[{kind: numeric}]")
    if rewards == "[numeric]":
        recipe: Any = load(tmp_path, text.replace("[numeric]", "[{kind: numeric}]"), "rewards.0.weight=2")
    else:
        recipe = load(tmp_path, text, "rewards.rewards.0.weight=2")
    assert recipe.rewards.rewards[0].weight == 2


def test_null_takes_an_optional_part_away(tmp_path: Path) -> None:
    text = GRPO + "evaluation: {data: {family: arithmetic}}\n"
    assert load(tmp_path, text).evaluation is not None
    assert load(tmp_path, text, "evaluation=null").evaluation is None


@pytest.mark.parametrize("overrides", [["data.family=null", "data.path=x"], ["data.path=x", "data.family=null"]])
def test_null_makes_room_for_another_key(tmp_path: Path, overrides: list[str]) -> None:
    text = GRPO.replace("family: arithmetic", "family: {kind: arithmetic, digits: [3]}")
    data = load(tmp_path, text, *overrides).data
    assert (data.family, data.path) == (None, "x")


def test_null_gives_a_key_that_cannot_be_null_its_default_again(tmp_path: Path) -> None:
    text = GRPO + "steps: 7\noptimizer: {betas: [0.5, 0.6], clip_norm: 3, lr: 1}\n"
    recipe = load(tmp_path, text, "optimizer.betas=null", "optimizer.clip_norm=null", "optimizer.lr=null", "steps=null")
    assert recipe.steps == 100 and recipe.optimizer.betas == (0.9, 0.999)
    assert recipe.optimizer.clip_norm is None and recipe.optimizer.lr is None  # these may be null
    assert load(tmp_path, text, "optimizer=null").optimizer == type(recipe.optimizer)()


def test_null_takes_keys_away_that_another_method_does_not_have(tmp_path: Path) -> None:
    text = GRPO + "sampling: {max_tokens: 4}\n"
    assert "rewards; it belongs to methods that sample" in fails(tmp_path, text, "method=sft")
    assert load(tmp_path, text, "method=sft", "rewards=null", "sampling=null").method == "sft"


@pytest.mark.parametrize("before", ["{kind: numeric, tolerance: 1}", "numeric", "[numeric, format]"])
@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        ("[format, {kind: numeric, weight: 2}]", ["format", "numeric"]),
        ("format", ["format"]),
        ("{kind: function, function: 'a.py:b'}", ["function"]),
        ("{rewards: [{kind: format}]}", ["format"]),
    ],
)
def test_a_value_that_says_everything_about_a_part_replaces_it(
    tmp_path: Path, before: str, value: str, kinds: list[str]
) -> None:
    recipe: Any = load(tmp_path, GRPO.replace("{kind: numeric}", before), f"rewards={value}")
    assert [reward.kind for reward in recipe.rewards.rewards] == kinds
    assert recipe.rewards.rewards[0].model_dump().get("tolerance", 0) == 0  # nothing of the old part is left


def test_the_kind_of_a_family_replaces_the_family(tmp_path: Path) -> None:
    text = GRPO.replace("family: arithmetic", "family: {kind: arithmetic, digits: [3]}")
    for value in ("arithmetic", "{kind: arithmetic, count: 9}"):
        assert load(tmp_path, text, f"data.family={value}").data.family.digits == (2,)  # pyright: ignore
    assert "would take the place of data.family.kind" in fails(tmp_path, text, "data.family={count: 9}")


def test_lists_are_set_as_a_whole(tmp_path: Path) -> None:
    recipe = load(tmp_path, GRPO, "data.family.digits=[2,3]", "trackers=[{kind: wandb}, tensorboard]")
    assert recipe.data.family is not None and recipe.data.family.digits == (2, 3)
    assert [tracker.kind for tracker in recipe.trackers] == ["wandb", "tensorboard"]
    text = GRPO + "trackers: [{kind: wandb}, tensorboard]\n"
    assert load(tmp_path, text, "trackers=[]").trackers == ()
    changed = load(tmp_path, text, "trackers.0.project=mine", "trackers.1.kind=trackio").trackers
    assert [(t.kind, t.project) for t in changed] == [("wandb", "mine"), ("trackio", "burnish")]


def test_a_change_to_one_key_does_not_reach_another_that_is_its_alias(tmp_path: Path) -> None:
    text = GRPO.replace("family: arithmetic", "family: &f {kind: arithmetic, count: 50}")
    text += "evaluation: {data: {family: *f}}\n"
    recipe: Any = load(tmp_path, text, "evaluation.data.family.split=heldout", "data.family.count=60")
    assert (recipe.data.family.count, recipe.data.family.split) == (60, "train")
    assert (recipe.evaluation.data.family.count, recipe.evaluation.data.family.split) == (50, "heldout")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["optimizer.lr=1", "optimizer.lr=1"], "command line: optimizer.lr is given twice"),
        (["optimizer.lr=1", "optimizer={lr: 2}"], "optimizer and optimizer.lr set the same thing"),
        (["model=x"], "command line: model is a mapping, not a value: 'x' would take the place of model.path"),
        (["optimizer=3"], "command line: optimizer: given 3, but it has keys of its own: name, lr"),
        (["method.x=3"], "looks for keys in method, which is 'grpo'"),
        (["steps"], "'steps' is no override; write KEY=VALUE"),
        (["steps="], "steps has no value; write steps=null"),
        (["a b=3"], "'a b' is no key"),
        (["steps=["], "command line, steps, line 1, column 2: not YAML"),
        (["sample_per_prompt=3"], "command line: there is no key sample_per_prompt; did you mean samples_per_prompt?"),
        (["optimizer.name=adem"], "command line: optimizer.name: given 'adem'; did you mean 'adam'?"),
        (["method=dpo"], "command line: there is no method 'dpo'; did you mean 'dppo'?"),
        (["data.prompt=x"], "data: prompt: only for rows of a file"),
        (["rewards=[]"], "command line: rewards: given []; it takes list of keys"),
        (["model.path=null"], "model.path is missing (a folder,"),
        (["data=null"], "command line: data is missing"),
        (["stepps=null"], "command line: there is no key stepps; did you mean steps?"),
        (["rewards.1.weight=2"], "rewards is no list, so rewards.1.weight finds nothing in it"),
        (["data.family.digits.0=2"], "data.family.digits.0 finds nothing"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path: Path, overrides: list[str], message: str) -> None:
    assert message in fails(tmp_path, GRPO, *overrides)
