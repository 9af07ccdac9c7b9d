"""Verifiable rewards through a whole run: programs in the sandbox and JSON against its schema reach the update."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from burnish.api import RunResult, train
from burnish.running.config import recipe_from_mapping
from burnish.running.progress import make_progress

CHECKS: dict[str, dict[str, Any]] = {
    "programs": {"kind": "code", "read": "whole"},
    "records": {"kind": "json_schema", "key": "right"},
}


def _run(family: str, out: Path, **keys: Any) -> RunResult:
    check = CHECKS[family]
    data = {"family": {"kind": family, "levels": [1], "count": 40, "wording": "short"}}
    held = {"family": {**data["family"], "count": 6, "split": "heldout"}}
    recipe = recipe_from_mapping(
        {
            "method": "grpo", "model": {"path": f"nursery:{family}-S", "dtype": "float32"}, "seed": 1, "steps": 2,
            "prompts_per_step": 3, "samples_per_prompt": 6, "sampling": {"max_tokens": 48}, "data": data,
            "rewards": check, "optimizer": {"lr": 1e-4}, "threads": 1,
            "evaluation": {"data": held, "correct": check, "max_tokens": 48}, **keys,
        }
    )  # fmt: skip
    with make_progress("quiet") as progress:
        return train(recipe, out=out, progress=progress)


@pytest.mark.parametrize("family", CHECKS)
def test_a_run_is_paid_by_the_verifier_and_evaluated_by_it(family: str, tmp_path: Path) -> None:
    result = _run(family, tmp_path / "run")
    steps = [json.loads(line) for line in (result.out / "metrics.jsonl").read_text("utf-8").splitlines()]
    name = CHECKS[family]["kind"]
    assert all(step["reward_missing"] == 0 for step in steps)
    assert all(step["reward"] == step[f"reward/{name}"] for step in steps)
    assert any(0 < step["reward"] < 1 for step in steps)  # the checkpoint gets some right and not all
    assert result.summary["optimizer_steps"] == 2
    wrong = [kind for kind in result.summary["verdicts"] if kind.startswith(f"{name}/")]
    assert wrong and all(kind.partition("/")[2] in KNOWN for kind in wrong)
    assert result.summary["before"]["items"] == 6 and result.summary["before"]["accuracy"] is not None


KNOWN = {
    "tests_failed", "program_failed", "no_code", "time_limit", "memory_limit",
    "broken_json", "schema_mismatch", "wrong", "no_answer", "number_too_large", "too_deep",
}  # fmt: skip
"""What these verifiers name of an answer that is not right; none of them is the machinery's."""


def test_what_an_answer_is_worth_decides_what_is_learned(tmp_path: Path) -> None:
    """The same run, but for the weight of the reward: were the verdicts not used, both would end alike."""
    ends = []
    for weight in (1.0, -1.0):
        rewards = {**CHECKS["records"], "weight": weight}
        out = _run("records", tmp_path / str(weight), rewards=rewards, evaluation=None).out
        ends.append((out / "final" / "model.safetensors").read_bytes())
    assert ends[0] != ends[1]
