"""Does `recipes/nursery/grpo.yaml` raise the reward with every seed, and how long does the whole command take.

    python -m benchmarks.nursery_grpo [--seeds 0 1 2 3 4] [--recipe recipes/nursery/grpo.yaml] [--write FILE]

The command runs as a process of its own for each seed, start and imports included, as a person would run it. First and
last third are means over the steps' rewards. Exits 1 when a reward does not rise or a run takes longer than 30 s.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from burnish.running.environment import environment
from burnish.traces.files import atomic_write

LIMIT = 30.0
"""Seconds of the whole command."""


def run(recipe: str, seed: int) -> dict[str, Any]:
    """One run: its seed, mean reward in the first and in the last third of the steps, seconds from start to exit."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = ["train", recipe, f"seed={seed}", "--out", str(out), "--quiet"]
        began = time.perf_counter()
        subprocess.run([sys.executable, "-m", "burnish.cli", *words], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - began
        lines = (out / "metrics.jsonl").read_text("utf-8").splitlines()
    rewards = [record["reward"] for record in map(json.loads, lines) if "reward" in record]
    third = len(rewards) // 3
    first, last = (sum(part) / third for part in (rewards[:third], rewards[-third:]))
    return {
        "seed": seed, "steps": len(rewards), "first_third": round(first, 4), "last_third": round(last, 4),
        "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    """Run every seed, print and write what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--recipe", default="recipes/nursery/grpo.yaml")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    runs = []
    for seed in arguments.seeds:
        runs.append(run(arguments.recipe, seed))
        print(json.dumps(runs[-1]), flush=True)
    rises, quick = ([test(r) for r in runs] for test in (_rises, lambda r: r["seconds"] <= LIMIT))
    print(f"the reward rises with {sum(rises)} of {len(runs)} seeds; {sum(quick)} of {len(runs)} within {LIMIT:g} s")
    if arguments.write:
        about = {
            "recipe": arguments.recipe, "limit_seconds": LIMIT, "cores": os.cpu_count(),
            "load_before": round(load, 2), "environment": environment(torch.device("cpu")),
        }  # fmt: skip
        body = ",\n".join(f"  {json.dumps(r)}" for r in runs)
        head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in about.items())
        arguments.write.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(arguments.write, f'{{\n{head},\n "runs": [\n{body}\n ]\n}}\n')
    sys.exit(0 if all(rises) and all(quick) else 1)


def _rises(found: dict[str, Any]) -> bool:
    return found["last_third"] > found["first_third"]


if __name__ == "__main__":
    main()
