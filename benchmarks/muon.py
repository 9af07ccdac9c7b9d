"""Muon against AdamW on a model that is trained from its beginning: loss at equal steps, and the largest safe rate.

    python -m benchmarks.muon [--results benchmarks/results/muon] [--seeds 0 1 2 3 4]

The work is how the nursery's arithmetic-S is made (burnish/nursery_recipes/arithmetic.yaml, 260 steps). Declared before
it ran: the metric is the mean training loss of the last 26 steps, lower is better, an effect below 0.01 is of no
interest; each optimizer's learning rate is the best of the same grid on seed 100, which is not among the seeds that are
paired. Everything else is the recipe's, for both. A finished run is kept in RESULTS/runs.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.evidence import t_interval, text_of, verdict
from burnish.api import train
from burnish.errors import RunError
from burnish.methods.evidence import Evidence
from burnish.models.nursery import parameters
from burnish.running.config import load_recipe
from burnish.running.interrupts import InterruptedRunError
from burnish.running.progress import make_progress
from burnish.traces.files import atomic_write

RECIPE = Path("burnish/nursery_recipes/arithmetic.yaml")
RESULTS = Path("benchmarks/results/muon")
RATES = (2e-3, 4e-3, 8e-3, 1.6e-2, 3.2e-2, 6.4e-2)
STEPS, LAST, TUNING_SEED = 260, 26, 100
SMALLEST = 0.01
Run = dict[str, Any]


def run(name: str, lr: float, seed: int) -> Run:
    """Train once: the loss of every step, the seconds. A run that breaks has no loss."""
    keys = [f"optimizer.name={name}", f"optimizer.lr={lr}", f"seed={seed}", f"steps={STEPS}"]
    recipe = load_recipe(RECIPE, keys)
    found: Run = {"optimizer": name, "lr": lr, "seed": seed}
    with tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        try:
            result = train(recipe, out=Path(scratch) / "run", name="muon", progress=make_progress("quiet"))
        except InterruptedRunError:
            raise  # somebody else's doing, and no finding
        except RunError as error:
            return {**found, "broken": str(error)}
        records = [json.loads(line) for line in (result.out / "metrics.jsonl").read_text("utf-8").splitlines()]
    losses = [record["loss"] for record in records if "loss" in record]
    return {
        **found, "loss": sum(losses[-LAST:]) / LAST, "seconds": round(time.perf_counter() - started, 1),
        "accuracy": result.summary["after"]["accuracy"]["estimate"],
        "flops": result.summary["ledger"]["policy"]["flops"], "losses": [float(f"{loss:.4g}") for loss in losses],
    }  # fmt: skip


class Runs:
    """What has run, kept in a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known: list[Run] = json.loads(path.read_text("utf-8")) if path.is_file() else []

    def get(self, name: str, lr: float, seed: int) -> Run:
        """A run, made if it is not there."""
        wanted = {"optimizer": name, "lr": lr, "seed": seed}
        for known in self.known:
            if all(known[key] == value for key, value in wanted.items()):
                return known
        self.known.append(run(name, lr, seed))
        self.path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self.path, "[\n " + ",\n ".join(json.dumps(run) for run in self.known) + "\n]\n")
        return self.known[-1]


def tuned(runs: Runs, name: str) -> tuple[float, list[Run]]:
    """The best learning rate of the grid, and every run of the grid."""
    grid = [runs.get(name, lr, TUNING_SEED) for lr in RATES]
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
    pairs = [[runs.get(name, best[name][0], seed) for name in ("adamw", "muon")] for seed in arguments.seeds]
    for one, other in pairs:
        fewer = next((n for n in range(LAST, STEPS + 1) if smoothed(other, n) <= one["loss"]), STEPS)
        print(f"| {one['seed']} | {one['loss']:.4f} | {other['loss']:.4f} | {fewer} |")
    low, high = t_interval([one["loss"] - other["loss"] for one, other in pairs])
    print(f"AdamW less Muon: {(low + high) / 2:+.4f} [{low:+.4f}, {high:+.4f}], smallest of interest {SMALLEST}")
    rates = ", ".join(f"{name} {lr:g}" for name, (lr, _) in best.items())
    found = Evidence(
        study="muon", method="sft", row="muon", claim="Muon ends at a lower loss than AdamW after equal steps",
        metric="mean training loss of the last steps, AdamW's less Muon's",
        control="AdamW, each at the best rate of one grid", model="nursery:S", parameters=parameters("S"),
        task="two-digit sums, trained from the beginning", verdict=verdict(low, high),
        effect=round((low + high) / 2, 4), interval=(round(low, 4), round(high, 4)), seeds=len(pairs),
        reason=f"learning rates: {rates}", command="python -m benchmarks.muon",
    )  # fmt: skip
    atomic_write(arguments.results / "evidence.json", text_of([found]))


def smoothed(run: Run, step: int) -> float:
    """Mean loss of the last steps before one."""
    return float(sum(run["losses"][step - LAST : step]) / LAST)


if __name__ == "__main__":
    main()
