"""A working folder with everything a pipeline of tiny runs needs, and the pipeline itself."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from burnish.pipelines import PipelineResult, run_pipeline
from tests.tiny import tiny_network, tiny_tokenizer

REWARDS = """
def longer(completions, goal, **columns):
    with open("calls.txt", "a") as file:
        file.write(goal[0] + "\\n")
    return [float(len(c)) for c in completions]
"""

PIPELINE: dict[str, Any] = {
    "pipeline": "six",
    "nodes": {
        "draw": {
            "sample": {"model": "model", "data": "tasks.jsonl", "samples_per_prompt": 4, "deterministic": True,
                       "sampling": {"max_tokens": 4}}
        },
        "judged": {"judge": {"data": "@draw", "rewards": {"kind": "function", "function": "rewards.py:longer"}}},
        "kept": {"filter": {"data": "@judged", "best": 2, "drop_truncated": False, "distinct": True}},
        "tune": {"train": {"recipe": "sft.yaml", "set": {"data.path": "@kept"}}},
        "score": {"evaluate": {"model": "@tune", "data": "held.jsonl", "max_tokens": 3}},
        "apart": {"train": {"recipe": "grpo.yaml"}},
    },
}  # fmt: skip
ALL = ["draw", "judged", "kept", "tune", "score", "apart"]


def rows(file: str, count: int, first: int = 0) -> None:
    lines = [{"prompt": f"say {i}", "goal": f"g{i}", "answer": str(i)} for i in range(first, first + count)]
    Path(file).write_text("".join(json.dumps(line) + "\n" for line in lines))


def written(name: str, values: dict[str, Any]) -> None:
    Path(name).write_text(yaml.safe_dump(values, sort_keys=False))


def populate(folder: Path) -> None:
    """A working folder: a model, data, rewards, recipes, the pipeline."""
    tiny_network("llama").save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    rows("tasks.jsonl", 4)
    rows("held.jsonl", 3, first=50)
    Path("rewards.py").write_text(REWARDS)
    common = {"steps": 2, "prompts_per_step": 2, "model": {"path": "model"}, "optimizer": {"lr": 1e-3}}
    exact = {"deterministic": True, "threads": 1, "traces_every": 0}
    written("sft.yaml", {"method": "sft", **common, **exact, "data": {"path": "demonstrations.jsonl"}})
    rewards = {"kind": "function", "function": "rewards.py:longer"}
    sampled = {"samples_per_prompt": 2, "data": {"path": "tasks.jsonl"}, "sampling": {"max_tokens": 3}}
    written("grpo.yaml", {"method": "grpo", **common, **exact, **sampled, "rewards": rewards})
    written("pipeline.yaml", PIPELINE)


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The folder as the current one."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(*overrides: str, out: str = "out", pipeline: Any = "pipeline.yaml") -> PipelineResult:
    return run_pipeline(pipeline, out=out, overrides=overrides, progress="quiet")


def hashes(result: PipelineResult) -> dict[str, str]:
    return {n.id: next(iter(n.artefact.provenance["outputs"].values()))["hash"] for n in result.nodes}
