"""docs/configuration.md shows what the program does."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from burnish.methods.registry import METHODS
from burnish.running.config import load_recipe, recipe_from_mapping
from burnish.running.keys import documented_keys
from burnish.running.origins import resolved_with_origins

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^    burnish (?:config|train) (recipes/.*)$", TEXT, re.M)
BLOCKS = re.findall(r"```yaml\n(.*?)```", TEXT, re.S)


def _after(title: str) -> str:
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_change_on_the_command_line_that_is_shown_works(command: str) -> None:
    recipe, *changes = shlex.split(command, comments=True)
    load_recipe(ROOT / recipe, [change for change in changes if not change.startswith("--")])


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 7


def test_the_origins_that_are_shown_are_printed() -> None:
    printed = resolved_with_origins(ROOT / "recipes" / "demo.yaml", ["optimizer.lr=1e-4"])
    shown = re.search(r"```yaml\n(.*?)```", _after("Where a value comes from"), re.S)
    assert shown is not None
    assert [line for line in shown[1].splitlines() if line not in printed.splitlines()] == []


def test_the_recipes_that_are_shown_load() -> None:
    assert recipe_from_mapping(yaml.safe_load(BLOCKS[0])).method == "grpo"
    merged = re.search(r"```yaml\n(.*?)```", _after("Anchors and merges"), re.S)
    assert merged is not None
    rest = {"method": "sft", "model": {"path": "m"}}
    recipe = recipe_from_mapping({**rest, **yaml.safe_load(merged[1])})
    assert recipe.evaluation is not None and recipe.evaluation.data.family is not None
    assert (recipe.evaluation.data.family.digits, recipe.evaluation.data.family.count) == ((2, 3), 320)


def test_each_short_form_means_what_is_said() -> None:
    rows = re.findall(r"^\| `(.*)` \| `(.*)` \|$", _after("Short forms"), re.M)
    assert len(rows) >= 5
    for short, long in rows:
        recipes = []
        for form in (short, long):
            values = yaml.safe_load(form)
            data = {"family": values.pop("family")} if "family" in values else {"path": "d.jsonl"}
            rest = {"method": "grpo", "model": {"path": "m"}, "rewards": "format", "data": data}
            recipes.append(recipe_from_mapping({**rest, **values}))
        assert recipes[0] == recipes[1], short


def test_the_refused_keys_that_are_listed_are_keys() -> None:
    known = {key.key.replace("[]", "") for method in METHODS for key in documented_keys(METHODS[method].recipe)}
    known |= {key.rpartition(".")[2] for key in known}
    rows = re.findall(r"^\| (`.*?) \| ", _after("What is refused").partition("Keys that contradict")[2], re.M)
    named = {name.partition(":")[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 25 and named - known == set()
