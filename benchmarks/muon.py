"""Muon against AdamW on a model that is trained from its beginning: loss at equal steps, and the largest safe rate.

    python -m benchmarks.muon [--results benchmarks/results/muon] [--seeds 0 1 2 3 4]

The work is how the nursery's arithmetic-S is made (burnish/nursery_recipes/arithmetic.yaml). Declared before it ran:
the metric is the mean training loss of the last 26 of 260 steps, lower is better, an effect below 0.01 is of no
interest; each optimizer's learning rate is the best of the same grid on seed 100, which is not reported on. Everything
else is the recipe's, for both. A finished run is kept in RESULTS/runs.json and skipped the next time.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from burnish.api import train
from burnish.errors import RunError
from burnish.models.nursery import parameters
from burnish.running.config import load_recipe
from burnish.running.progress import make_progress
from burnish.traces.files import atomic_write

RECIPE = Path("burnish/nursery_recipes/arithmetic.yaml")
RESULTS = Path("benchmarks/results/muon")
RATES = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
TUNING_SEED, LAST = 100, 26
SMALLEST = 0.01
Run = dict[str, Any]


def run(name: str, lr: float, seed: int, steps: int) -> Run:
    """Train once: the loss of every step, the seconds, held-out accuracy. A run that breaks has no loss."""
    keys = [f"optimizer.name={name}", f"optimizer.lr={lr}", f"seed={seed}", f"steps={steps}"]
    recipe = load_recipe(RECIPE, keys)
    found: Run = {"optimizer": name, "lr": lr, "seed": seed, "steps": steps}
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        try:
            result = train(recipe, out=Path(scratch) / "run", name="muon", progress=make_progress("quiet"))
        except RunError as error:
            return {**found, "broken": str(error)}
        records = [json.loads(line) for line in (result.out / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    return {
        **found, "loss": sum(losses[-LAST:]) / LAST, "accuracy": result.summary["after"]["accuracy"]["estimate"],
        "seconds": round(time.perf_counter() - started, 1), "ledger": result.summary["ledger"],
        "environment": {key: recipe.model_dump(mode="json").get(key) for key in ("threads",)},
        "losses": [float(f"{loss:.4g}") for loss in losses],
    }  # fmt: skip


class Runs:
    """What has run, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: list[Run] = json.loads(path.read_text("utf-8")) if path.is_file() else []

    def get(self, name: str, lr: float, seed: int, steps: int) -> Run:
        """A run, made if it is not there."""
        wanted = {"optimizer": name, "lr": lr, "seed": seed, "steps": steps}
        for known in self.known:
            if all(known[key] == value for key, value in wanted.items()):
                return known
        self.known.append(run(name, lr, seed, steps))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.path, "[\n " + ",\n ".join(json.dumps(run) for run in self.known) + "\n]\n")
        return self.known[-1]


def tuned(runs: Runs, name: str) -> tuple[float, list[Run]]:
    """The best learning rate of the grid, and every run of the grid."""
    grid = [runs.get(name, lr, TUNING_SEED, 260) for lr in RATES]
    return min((r for r in grid if "loss" in r), key=lambda r: r["loss"])["lr"], grid


def main() -> None:
    """Run what has not run yet, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    runs = Runs(arguments.results / "runs.json")
    best = {name: tuned(runs, name) for name in ("adamw", "muon")}
    for name, (lr, grid) in best.items():
        print(name, f"best {lr:g};", ", ".join(f"{r['lr']:g}: {r.get('loss', float('nan')):.3f}" for r in grid))
    for steps in (130, 260):
        pairs = [[runs.get(name, best[name][0], seed, steps) for name in ("adamw", "muon")] for seed in arguments.seeds]
        for one, other in pairs:
            print(steps, one["seed"], *(f"{r['loss']:.4f} {r['accuracy']:.3f} {r['seconds']} s" for r in (one, other)))
    print(f"{parameters('S'):,} parameters; smallest effect of interest {SMALLEST}")


if __name__ == "__main__":
    main()
