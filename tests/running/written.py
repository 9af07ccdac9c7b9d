"""Recipes as a user writes them into a file, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path

import pytest

from burnish.errors import InputError
from burnish.methods.recipe import Recipe
from burnish.running.config import load_recipe

GRPO = """\
method: grpo
model: {path: "wheel:x"}
data:
  family: arithmetic
rewards: {kind: numeric}
"""
SFT = "method: sft\nmodel: {path: x}\ndata: {path: rows.jsonl}\n"


def load(folder: Path, text: str, *overrides: str) -> Recipe:
    """The recipe that a file in the folder with this text gives."""
    path = folder / "recipe.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, overrides)


def fails(folder: Path, text: str, *overrides: str) -> str:
    """What is said of a file with this text; it must be wrong."""
    with pytest.raises(InputError) as error:
        load(folder, text, *overrides)
    assert error.value.exit_status == 2
    return str(error.value).replace(f"{folder}/", "")
