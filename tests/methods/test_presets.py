"""The presets of grpo: what each declares, that each trains, and what their recipes refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.errors import InputError
from burnish.losses.spec import PolicyGradientSpec
from burnish.methods.presets import PRESETS
from burnish.methods.registry import DECLARED, METHODS
from burnish.running.config import recipe_from_mapping, resolved_yaml
from burnish.running.progress import QuietProgress
from burnish.signals.spec import GroupAdvantageSpec
from burnish.traces.store import read_groups

ROOT = Path(__file__).parents[2]
SUMS: dict[str, Any] = {
    "steps": 1, "prompts_per_step": 2, "samples_per_prompt": 4, "sampling": {"max_tokens": 6}, "threads": 1,
    "model": {"path": "nursery:arithmetic-S", "dtype": "float32"}, "checkpoint_every": 0, "traces_every": 1,
    "data": {"family": {"kind": "arithmetic", "digits": [2], "count": 64, "question": "{a}{op}{b}="}},
    "rewards": "numeric",
    "learner": {"optimizer_steps": 2}, "optimizer": {"lr": 1e-3},
}  # fmt: skip


def recipe_of(method: str, **changes: Any) -> Any:
    return recipe_from_mapping({"method": method, **SUMS, **changes})


def declared(method: str, **options: Any) -> tuple[GroupAdvantageSpec, PolicyGradientSpec]:
    [phase] = METHODS[method].declare(recipe_of(method, options=options)).controller.phases
    [advantage] = [a for a in phase.annotators if isinstance(a, GroupAdvantageSpec)]
    [term] = [t for t in phase.terms if isinstance(t, PolicyGradientSpec)]
    return advantage, term


@pytest.mark.parametrize(
    ("method", "estimator", "surrogate", "ratio", "reduction", "clip"),
    [
        ("dr-grpo", "mean", "ppo", "token", "constant", (0.2, 0.2)),
        ("dapo", "grpo", "ppo", "token", "token_mean", (0.2, 0.28)),
        ("gspo", "grpo", "ppo", "sequence", "sequence_mean", (3e-4, 4e-4)),
        ("cispo", "grpo", "cispo", "token", "token_mean", (1.0, 4.0)),
        ("sapo", "grpo", "sapo", "token", "sequence_mean", None),
        ("gmpo", "grpo", "gmpo", "sequence", "sequence_mean", (0.4, 0.4)),
        ("dppo", "mean", "divergence_mask", "token", "token_mean", None),
        ("k1.5", "mean", "squared", "sequence", "sequence_sum", None),
        ("rloo", "rloo", "reinforce", "token", "sequence_sum", None),
        ("reinforce++", "reinforce_pp", "ppo", "token", "token_mean", (0.2, 0.2)),
        ("remax", "remax", "reinforce", "token", "sequence_sum", None),
        ("opo", "opo", "reinforce", "token", "sequence_sum", None),
    ],
)
def test_a_preset_declares_what_its_paper_says(
    method: str, estimator: str, surrogate: str, ratio: str, reduction: str, clip: tuple[float, float] | None
) -> None:
    advantage, term = declared(method)
    assert advantage.estimator == estimator
    assert (term.surrogate, term.ratio, term.reduction) == (surrogate, ratio, reduction)
    assert clip is None or (term.clip_low, term.clip_high) == clip
    assert term.constant == (6 if method == "dr-grpo" else None)  # the longest answer there can be
    assert METHODS[method].declare(recipe_of(method)).source.greedy == (method == "remax")  # type: ignore[attr-defined]


def test_every_preset_is_one_of_grpo_and_takes_its_keys() -> None:
    assert DECLARED[:2] == ("sft", "grpo") and not {m.name for m in PRESETS} & set(DECLARED)
    for method in PRESETS:
        recipe = recipe_of(method.name, options={"entropy": 0.01})
        assert recipe.method == method.name and recipe.options.entropy == 0.01
        import yaml

        assert recipe_from_mapping(yaml.safe_load(resolved_yaml(recipe))) == recipe


SHIPPED = ["gspo", "cispo", "rloo", "score-centering"]
"""Presets with a recipe of their own."""


@pytest.mark.parametrize("method", [m.name for m in PRESETS if m.name not in SHIPPED])
def test_a_preset_trains(method: str, tmp_path: Path) -> None:
    burnish.train(recipe_of(method), out=tmp_path / "run", progress=QuietProgress())
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert all(line["grad_norm"] > 0 and line["optimizer_steps"] >= 1 for line in lines if line["trained_tokens"])
    assert sum(line["trained_tokens"] for line in lines) > 0
    [folder] = [tmp_path / "run" / "traces"]
    groups = read_groups(folder / "step-000001.parquet")
    names = [[member.name for member in group.members] for group in groups]
    assert names == [["sample"] * 4 + (["greedy"] if method == "remax" else [])] * 2
    for group in groups if method == "remax" else []:
        assert group.members[-1].masked and group.members[-1].verdict is not None
        assert group.members[-1].trace.nodes[group.members[-1].leaf].meta["temperature"] == 0


@pytest.mark.parametrize("method", SHIPPED)
def test_the_recipe_of_a_preset_runs_for_a_few_steps(method: str, tmp_path: Path) -> None:
    changes = {"steps": 2, "prompts_per_step": 8, "evaluation": None, "checkpoint_every": 0, "traces_every": 0}
    path = ROOT / "recipes" / "nursery" / f"{method}.yaml"
    recipe = burnish.load_recipe(path).model_copy(update=changes)
    burnish.train(recipe, out=tmp_path / "run", progress=QuietProgress())
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) == 2 and all(line["trained_tokens"] > 0 for line in lines)
    assert all(line.get("clipped_share", 0) < 0.5 for line in lines)  # the widths fit the length of the answers


@pytest.mark.parametrize("method", ["reinforce++", "remax"])
def test_one_sample_of_a_prompt_is_enough_where_nothing_is_compared(method: str, tmp_path: Path) -> None:
    run = burnish.train(recipe_of(method, samples_per_prompt=1), out=tmp_path / "run", progress=QuietProgress())
    assert run.summary["optimizer_steps"] == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples_per_prompt": 1}, "a group of one has nothing to compare, and options.advantage mean compares"),
        ({"options": {"advantage": "max_at_k", "k": 5}}, "options.k: the best of 5 is asked for of 4 samples"),
        ({"options": {"advantage": "max_at_k"}}, "k belongs to advantage: max_at_k"),
        ({"options": {"clip_low": -0.1}}, "options.clip_low"),
        ({"options": {"surrogate": "sapo", "clip_high": 0.3}}, "clip_high: unused with surrogate sapo"),
        ({"options": {"surrogate": "gmpo"}}, "gmpo takes ratio: segment or sequence"),
        ({"options": {"segment_tokens": 3}}, "segment_tokens: unused; it is for ratio: segment"),
        ({"options": {"centre": "greedy"}}, "centre: unused with advantage mean"),
        ({"options": {"advantage": "multi_reward", "kl": 0.1, "kl_estimator": "k1_reward"}}, "would pass over shaping"),
        ({"options": {"decay": 0.5}}, "decay: unused; it is for centre: moving_average"),
        (
            {"options": {"kl": 0.1, "kl_estimator": "k3"}},
            "k3 as a loss follows the gradient of KL(reference",
        ),
        ({"options": {"kl": 0.1, "kl_estimator": "k3_reward"}}, "as a constant only d has the right gradient"),
        ({"options": {"covariance": {"rule": "kl", "low": 0.5}}}, "low: unused with rule kl"),
        ({"options": {"covariance": {"low": 6}}}, "the band from 6 to 5 is empty"),
        ({"options": {"constant": 5}}, "constant belongs to reduction: constant"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        recipe_of("grpo", **changes)
    assert message in str(error.value)


def test_a_kl_in_the_reward_is_no_term_of_the_loss() -> None:
    options = {"kl": 0.1, "kl_estimator": "k1_reward"}
    declaration = METHODS["grpo"].declare(recipe_of("grpo", options=options))
    [phase] = declaration.controller.phases
    assert [t.kind for t in phase.terms] == ["policy_gradient"] and declaration.references == ("reference",)  # type: ignore[attr-defined]
    advantage, _ = declared("grpo", **options)
    assert advantage.kl == 0.1
