"""Supervised training of the nursery's model over several seeds: held-out accuracy before and after.

    python -m benchmarks.nursery_sft [--seeds 0 1 2 3 4]

A finished seed is written as benchmarks/results/nursery-sft/seed-N.json, and skipped the next time while the resolved
recipe is the same. docs/methods/sft.md has the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path

from burnish.api import train
from burnish.running.config import load_recipe, resolved_yaml
from burnish.running.progress import make_progress
from burnish.traces.files import atomic_write

RECIPE = Path("recipes/nursery/sft.yaml")
RESULTS = Path("benchmarks/results/nursery-sft")


def run_seed(seed: int) -> None:
    """Train one seed and write its result, unless it is there."""
    recipe = load_recipe(RECIPE, [f"seed={seed}"])
    digest = hashlib.sha256(resolved_yaml(recipe).encode()).hexdigest()[:16]
    target = RESULTS / f"seed-{seed}.json"
    if target.exists() and json.loads(target.read_text("utf-8"))["recipe"] == digest:
        return
    with tempfile.TemporaryDirectory() as scratch:
        result = train(recipe, out=Path(scratch) / "run", name="nursery-sft", progress=make_progress("lines"))
        versions = json.loads((result.out / "run.json").read_text("utf-8"))["environment"]
    found = {
        "recipe": digest, "recipe_path": RECIPE.as_posix(), "model": recipe.model.path, "environment": versions,
        **result.summary,
    }  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
    atomic_write(target, "{\n" + lines + "\n}\n")


def main() -> None:
    """Run the seeds that have no result yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    for seed in parser.parse_args().seeds:
        run_seed(seed)


if __name__ == "__main__":
    main()
