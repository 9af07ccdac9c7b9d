"""Verifiers in a run: what workers say reaches the update, and their processes end with the feedback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from burnish.api import train
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import make_progress


def test_a_run_on_the_math_verifier_learns_from_the_rewards_that_the_numeric_one_gives(tmp_path: Path) -> None:
    base: dict[str, Any] = {
        "method": "grpo", "model": {"path": "nursery:arithmetic-S"}, "steps": 2, "prompts_per_step": 4,
        "samples_per_prompt": 4, "deterministic": True, "sampling": {"max_tokens": 6}, "seed": 0,
        "data": {"family": {"kind": "arithmetic", "operations": ["+"], "digits": [2], "question": "{a}{op}{b}="}},
    }  # fmt: skip
    weights = []
    for kind in ("numeric", "math"):
        with make_progress("quiet") as progress:
            train(recipe_from_mapping({**base, "rewards": kind}), out=tmp_path / kind, progress=progress)
        records = [json.loads(line) for line in (tmp_path / kind / "metrics.jsonl").read_text("utf-8").splitlines()]
        assert any(record[f"reward/{kind}"] > 0 for record in records)
        weights.append((tmp_path / kind / "final" / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
