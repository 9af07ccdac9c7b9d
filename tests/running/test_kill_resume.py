"""Promise E2: a run killed at any moment and resumed ends with the same bits as one never killed.

A real `burnish train` process gets SIGKILL at seeded moments one after the other, each time resumed by another; then
everything it wrote is compared byte for byte with a run that nobody killed. It is killed at 4 moments to
keep the tests quick, with BURNISH_KILLS=20 in the environment at 20.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.running.lives import Life, Moment, assert_same
from tests.tiny import tiny_network, tiny_tokenizer

KILLS = int(os.environ.get("BURNISH_KILLS", "4"))

REWARDS = '''
def dense(completions, **columns):
    """Spread even for a random model."""
    return [c.count("e") + 0.1 * len(c) for c in completions]
'''


def recipe_of(folder: Path, method: str, adapter: bool) -> Path:
    """A recipe file beside a tiny random model; 8 steps, a checkpoint every 2, several optimizer steps a step."""
    tiny_network("llama").save_pretrained(folder / "model")
    tiny_tokenizer().save_pretrained(folder / "model")
    held_out = {"family": {"kind": "arithmetic", "count": 12, "split": "heldout"}}
    values: dict[str, Any] = {
        "method": method, "seed": 3, "steps": 8, "prompts_per_step": 4, "deterministic": True, "checkpoint_every": 2,
        "traces_every": 1, "threads": 1,
        "model": {"path": "model", **({"adapter": {"rank": 4}} if adapter else {})},
        "learner": {"optimizer_steps": 4, "micro_batch_tokens": 128},
        "optimizer": {"lr": 1e-3, "schedule": "cosine", "warmup_steps": 2},
        "evaluation": {"data": held_out, "max_tokens": 4, "every": 3, "concurrency": 3},
    }  # fmt: skip
    if method == "grpo":
        (folder / "rewards.py").write_text(REWARDS, "utf-8")
        values |= {
            "data": {"family": {"kind": "arithmetic", "count": 16}}, "samples_per_prompt": 4,
            "sampling": {"max_tokens": 6}, "rewards": [{"kind": "function", "function": "rewards.py:dense"}],
            "options": {"kl": 0.05, "passes": 2},
        }  # fmt: skip
    else:
        rows = [{"prompt": f"say {i}", "completion": f"{i} and {i}"} for i in range(16)]  # an epoch is four steps
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        values |= {"data": {"path": "rows.jsonl"}}
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(values), "utf-8")  # JSON is YAML
    return path


def chosen(moments: list[Moment], count: int, seed: int) -> list[Moment]:
    """Moments in the order in which they come: inside checkpoints, between optimizer steps, in evaluations ..."""
    draw = random.Random(seed)
    order = {moment: place for place, moment in reversed(list(enumerate(moments)))}
    inside = [m for m in order if 0 < m.done < m.total]
    first = "sampling" if any(m.phase == "sampling" for m in order) else "reading"
    few = count < 20  # of eight such moments as many as are wanted; another seed takes others
    picked = [
        # one of each stage of checkpoint writing, each in another checkpoint
        *(Moment(n, "checkpoint", done, 4) for n, done in zip((2, 4, 6, 8), draw.sample(range(4), 4), strict=True)),
        Moment(4, first, 0, 4),  # an epoch border, just after its checkpoint
        Moment(8, "saving", 0, 1),  # after the last step
        *draw.sample([m for m in inside if m.phase == "learning"], 1 if few else 5),  # part of the rollouts is used up
        *draw.sample([m for m in inside if m.phase == "evaluating"], 1 if few else 4),
        *draw.sample([m for m in inside if m.phase == first], 0 if few else 2),
    ]
    rest = [m for m in order if m not in picked and m.phase not in ("checkpoint", "saving")]
    if count < len(picked):
        last = Moment(8, "saving", 0, 1)
        picked = [last, *draw.sample([m for m in picked if m != last], count - 1)]
    picked += draw.sample(rest, count - len(picked))
    return sorted(picked, key=lambda m: order[m])


@pytest.mark.parametrize(
    ("method", "adapter"),
    [("grpo", False), ("grpo", True), ("sft", False), ("sft", True)],
    ids=["grpo-full", "grpo-lora", "sft-full", "sft-lora"],
)
def test_a_run_killed_again_and_again_ends_with_the_bits_of_one_never_killed(
    method: str, adapter: bool, tmp_path: Path
) -> None:
    recipe = recipe_of(tmp_path, method, adapter)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    moments = Life(recipe, whole, fresh=not adapter).finish()
    kills = chosen(moments, KILLS, seed=len(method) + adapter)
    assert len(set(kills)) == KILLS
    draw = random.Random(adapter)
    for moment in kills:
        assert Life(recipe, killed, "--resume").kill_at(moment, draw.uniform(0, 0.002)), f"{moment} never came"
        assert not (killed / "summary.json").exists()
    last = Life(recipe, killed, "--resume")
    last.finish()
    assert any("resumed after step 8" in text for text in last.messages)
    assert_same(whole, killed)
    answers = [
        (event["step"], event["key"])
        for line in (killed / "journal.jsonl").read_text("utf-8").splitlines()
        if (event := json.loads(line))["event"] == "answer"
    ]
    assert len(answers) == len(set(answers)) == (32 if method == "grpo" else 0)  # no answer was asked for anew
