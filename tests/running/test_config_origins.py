"""Promise E10: the resolved recipe says where each value comes from, and loads as a recipe again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.running.config import load_recipe, resolved_yaml
from burnish.running.mistakes import dotted
from burnish.running.origins import recipe_with_origins, resolved_with_origins

ROOT = Path(__file__).parents[2]
SHIPPED = [
    path for path in sorted((ROOT / "recipes").rglob("*.yaml")) if not {"pipelines", "studies"} & set(path.parts)
]

TEXT = """\
method: grpo
model:
  path: "wheel:x"
  adapter: {rank: 4,
            alpha: 8}
data:
  family: arithmetic
rewards:
  - numeric
  - kind: format
    weight: 0.5
optimizer: {lr: 1e-5}
trackers:
  - tensorboard
  - {kind: wandb, project: mine}
"""


def _origins(folder: Path, text: str, *overrides: str) -> dict[str, str]:
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return {key: str(origin) for key, origin in recipe_with_origins(path, overrides)[1].items()}


def test_each_value_has_its_line_its_short_form_or_its_default(tmp_path: Path) -> None:
    origins = _origins(tmp_path, TEXT)
    expected = {
        "method": "recipe.yaml:1",
        "seed": "default",
        "model.path": "recipe.yaml:3",
        "model.dtype": "default",
        "model.adapter.rank": "recipe.yaml:4",
        "model.adapter.alpha": "recipe.yaml:5",
        "model.adapter.targets": "default",
        "data.family.kind": "short form, recipe.yaml:7",
        "data.family.digits": "default",
        "rewards.rewards.0.kind": "short form, recipe.yaml:9",
        "rewards.rewards.0.weight": "default",
        "rewards.rewards.1.kind": "recipe.yaml:10",
        "rewards.rewards.1.weight": "recipe.yaml:11",
        "rewards.concurrency": "default",
        "optimizer.lr": "recipe.yaml:12",
        "trackers.0.kind": "short form, recipe.yaml:14",
        "trackers.1.project": "recipe.yaml:15",
        "evaluation": "default",
    }
    assert {key: origins[key] for key in expected} == expected


def test_the_command_line_is_named_where_it_decided(tmp_path: Path) -> None:
    text = TEXT.replace("family: arithmetic", "family: {kind: arithmetic, digits: [2, 3]}")
    origins = _origins(
        tmp_path, text, "optimizer.lr=1e-4", "optimizer.betas=null", "evaluation.data.family=arithmetic",
        "rewards.1.weight=2", "data.family.digits.0=1", "steps=9", "model.adapter=null", "trackers=[wandb]",
    )  # fmt: skip
    expected = {
        "optimizer.lr": "command line",
        "optimizer.betas": "command line",
        "optimizer.eps": "default",
        "evaluation.data.family.kind": "short form, command line",
        "evaluation.data.family.digits": "default",
        "rewards.rewards.0.kind": "short form, recipe.yaml:9",
        "rewards.rewards.1.kind": "recipe.yaml:10",
        "rewards.rewards.1.weight": "command line",
        "data.family.digits": "recipe.yaml:7, command line",
        "steps": "command line",
        "model.adapter": "command line",
        "trackers.0.kind": "short form, command line",
        "trackers.0.project": "default",
    }
    assert {key: origins[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("rewards", "overrides", "expected"),
    [
        ("{kind: function,\n  function: 'f.py:g',\n  concurrency: 3}", [],
         {"kind": 4, "function": 5, "concurrency": 6}),
        ("{kind: function,\n  function: 'f.py:g'}", ["rewards.rewards.0.weight=2"],
         {"kind": 4, "function": 5, "weight": "command line"}),
        ("{kind: function,\n  function: 'f.py:g'}", ["rewards.weight=2"],
         {"kind": 4, "function": 5, "weight": "command line"}),
        ("\n  rewards:\n    - kind: function\n      function: 'f.py:g'\n  concurrency: 3", [],
         {"kind": 6, "function": 7, "concurrency": 8}),
        ("[{kind: function,\n  function: 'f.py:g'}]", ["rewards.concurrency=3"],
         {"kind": 4, "function": 5, "concurrency": "command line"}),
        ("numeric", ["rewards.rewards.0.weight=2"], {"kind": "short form, recipe.yaml:4", "weight": "command line"}),
    ],
)  # fmt: skip
def test_every_form_of_the_rewards_keeps_its_lines(
    tmp_path: Path, rewards: str, overrides: list[str], expected: dict[str, int | str]
) -> None:
    text = f"method: grpo\nmodel: {{path: x}}\ndata: {{path: d}}\nrewards: {rewards}\n"
    origins = _origins(tmp_path, text, *overrides)
    for key, origin in expected.items():
        found = origins["rewards.concurrency" if key == "concurrency" else f"rewards.rewards.0.{key}"]
        assert found == (origin if isinstance(origin, str) else f"recipe.yaml:{origin}"), key


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[str]:
    if isinstance(value, dict) and value:
        return [found for key, inner in value.items() for found in _paths(inner, (*path, key))]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [found for place, inner in enumerate(value) for found in _paths(inner, (*path, place))]
    return [dotted(path)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_printed_text_loads_again_and_each_value_has_one_aligned_comment(path: Path, tmp_path: Path) -> None:
    text = resolved_with_origins(path, ["optimizer.lr=1e-4", "seed=3"])
    (tmp_path / "printed.yaml").write_text(text, encoding="utf-8")
    assert load_recipe(tmp_path / "printed.yaml") == load_recipe(path, ["optimizer.lr=1e-4", "seed=3"])
    recipe, origins = recipe_with_origins(path)
    assert list(origins) == _paths(yaml.safe_load(resolved_yaml(recipe)))
    comments = [line for line in text.splitlines() if " # " in line]
    assert len(comments) == len(origins)
    assert len({line.index("  # ") for line in comments if line.index("# ") < 64 and "  # " in line}) >= 1
    assert len({line.rindex("# ") for line in comments}) <= 2


@settings(max_examples=60, deadline=None)
@given(st.text(min_size=1), st.text(min_size=1), st.lists(st.text(), min_size=1, max_size=4), st.text(min_size=70))
def test_whatever_a_value_holds_the_printed_text_loads_again(
    tmp_path_factory: pytest.TempPathFactory, path: str, system: str, targets: list[str], template: str
) -> None:
    """Comment signs, line breaks and long texts in values."""
    folder = tmp_path_factory.mktemp("recipes")
    values = {
        "method": "sft",
        "model": {"path": path, "adapter": {"targets": targets}},
        "data": {"path": "d.jsonl", "system": system, "template": f"{template} # {{q}}"},
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(values, allow_unicode=True), encoding="utf-8")
    (folder / "printed.yaml").write_text(resolved_with_origins(folder / "recipe.yaml"), encoding="utf-8")
    assert load_recipe(folder / "printed.yaml") == load_recipe(folder / "recipe.yaml")


def test_a_strange_file_name_stays_a_comment(tmp_path: Path) -> None:
    path = tmp_path / "a\nb: 3 # x.yaml"
    path.write_text(TEXT)
    text = resolved_with_origins(path)
    assert "# a?b: 3 # x.yaml:1" in text
    (tmp_path / "again.yaml").write_text(text)
    assert load_recipe(tmp_path / "again.yaml") == load_recipe(path)
