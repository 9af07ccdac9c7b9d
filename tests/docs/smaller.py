"""The recipes and files that commands of the documents name, in nursery size.

A command is run as it stands in the document. What makes it quick is the folder it runs in: there `recipes/` holds
every recipe with few steps, few samples and a model of half a million parameters.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from tests.docs.pages import ROOT

MODEL = "nursery:arithmetic-S"
LIMITS = {
    "steps": 2, "prompts_per_step": 2, "samples_per_prompt": 2, "engine_rows": 16, "max_tokens": 4, "threads": 1,
    "count": 8,
}  # fmt: skip
"""Most that a recipe's key may be."""


def make_folder(folder: Path) -> Path:
    """A folder with small recipes, rows in several formats, and a place for runs."""
    for path in [*ROOT.glob("recipes/**/*.yaml"), *ROOT.glob("burnish/nursery_recipes/*.yaml")]:
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(yaml.safe_dump(small(yaml.safe_load(path.read_text("utf-8"))), sort_keys=False), "utf-8")
    rows = [{"prompt": f"{n}+34=", "question": f"{n}+34=", "answer": str(n + 34)} for n in range(12, 20)]
    _lines(folder / "rows.jsonl", rows)
    pairs = [{"instruction": f"Add {n} and 1.", "chosen": str(n + 1), "rejected": str(n)} for n in range(4)]
    (folder / "pairs.json").write_text(json.dumps(pairs), "utf-8")
    turns = [[{"role": "user", "content": f"{n}+1="}, {"role": "assistant", "content": str(n + 1)}] for n in range(4)]
    pq.write_table(pa.table({"messages": turns}), folder / "chats.parquet")
    return folder


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def small(value: Any) -> Any:
    """A recipe, a pipeline or a part of one with every number that costs time made smaller, and a nursery model."""
    if isinstance(value, dict):
        if {"budget", "methods", "test"} <= value.keys():
            value = small_study(value)
        more = {"guards": {"truncated_steps": 0}} if value.get("method") == "grpo" else {}
        return {key: _small(key, inner) for key, inner in value.items()} | more
    return [small(inner) for inner in value] if isinstance(value, list) else value


def small_study(study: dict[str, Any]) -> dict[str, Any]:
    """A study of one model, one task and two seeds, with a step for each evaluation."""
    first = {key: dict([next(iter(study[key].items()))]) for key in ("models", "tasks")}
    budget = {**study["budget"], "amount": study["test"]["points"] * LIMITS["prompts_per_step"]}
    return {**study, **first, "budget": budget, "seeds": 2, "claims": []}


def _small(key: str, value: Any) -> Any:
    if key in LIMITS and isinstance(value, int):
        return min(value, LIMITS[key])
    if isinstance(value, str) and value.startswith("wheel:"):
        return MODEL
    return small(value)
