"""Two thousand small steps take no more memory than two hundred do; and a run that leaks is seen to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import yaml

from tests.forked import burnish
from tests.tiny import tiny_network, tiny_tokenizer

BOUND = 8_000_000
"""Bytes a run may grow by once it runs; measured: 1 MB between steps 200 and 2,000."""

_REWARDS = """
kept = []

def letters(completions, **columns):
    return [sum(map(ord, c)) / 100 for c in completions]

def leaking(completions, **columns):
    kept.append(os.urandom(100_000))
    return letters(completions)

import os
"""


def resident(folder: Path, steps: int, function: str) -> np.ndarray:
    """Bytes in memory after each step of a run of its own process, which also stores traces and checkpoints.

    The model has one layer: what could grow (records, journal, sessions, tasks, checkpoints) is the same beside any.
    """
    (folder / "rewards.py").write_text(_REWARDS)
    tiny_network("llama", overrides={"num_hidden_layers": 1}).save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    recipe = {
        "method": "grpo", "steps": steps, "prompts_per_step": 1, "samples_per_prompt": 2,
        "model": {"path": "model", "dtype": "float32"}, "sampling": {"max_tokens": 2},
        "data": {"family": {"kind": "arithmetic", "operations": ["+"], "digits": [2], "question": "{a}{op}{b}="}},
        "rewards": [{"kind": "function", "function": f"rewards.py:{function}"}], "optimizer": {"lr": 1e-6},
        "traces_every": 100, "checkpoint_every": 500, "threads": 1, "guards": {"truncated_steps": 0},
    }  # fmt: skip
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    done = burnish("train", "recipe.yaml", "--out", "run", "--quiet", cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert len(lines) == steps
    return np.array([json.loads(line)["timing/rss_bytes"] for line in lines])


def growth(bytes_at_step: np.ndarray, after: int) -> float:
    """From the steps behind `after` to the last ones, as medians of twenty: a single step may hold a little more."""
    return float(np.median(bytes_at_step[-20:]) - np.median(bytes_at_step[after : after + 20]))


def test_memory_stays_bounded_over_two_thousand_steps(tmp_path: Path) -> None:
    measured = resident(tmp_path, 2000, "letters")
    assert measured.min() > 100_000_000  # the process as it stands, in bytes
    assert growth(measured, 200) < BOUND
    assert measured[200:].max() - measured[200:220].min() < 2 * BOUND


def test_a_leak_of_a_reward_function_is_seen(tmp_path: Path) -> None:
    """200 kB a step: what the test above measures would find it."""
    assert growth(resident(tmp_path, 150, "leaking"), 50) > BOUND
