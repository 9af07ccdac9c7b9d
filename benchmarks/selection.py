"""Which groups a step trains on: over-sampling by spread against a blind draw of the same size, and dynamic sampling.

    python -m benchmarks.selection [--seeds 0 1 2 3 4] [--results benchmarks/results/selection]

grpo on two-digit sums (recipes/nursery/grpo.yaml, 20 steps, a learning rate held back so that the plain run stays below
0.9). Declared before it ran: the metric is held-out greedy accuracy after training, higher is better, an effect below
0.02 is of no interest. `spread` is compared with `random`, which samples exactly as many prompts and trains on as many;
`refill` with `plain`, which samples fewer, at equal steps. A finished run is kept in RESULTS/runs.json.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.evidence import nursery_parameters, t_interval, text_of, verdict
from burnish.api import train
from burnish.methods.evidence import Evidence
from burnish.running.config import load_recipe
from burnish.running.progress import make_progress
from burnish.traces.files import atomic_write

RECIPE = Path("recipes/nursery/grpo.yaml")
RESULTS = Path("benchmarks/results/selection")
STEPS, LR = 20, 5e-5
ARMS: dict[str, str | None] = {
    "plain": None,
    "random": "{kind: oversample, factor: 2.0, by: random}",
    "spread": "{kind: oversample, factor: 2.0, by: spread}",
    "refill": "{kind: refill, rounds: 3}",
}
PAIRS = (("spread", "random"), ("refill", "plain"))
COMMAND = "python -m benchmarks.selection"


def run(arm: str, seed: int) -> dict[str, Any]:
    """Train once; held-out accuracy before and after, and what was sampled."""
    keys = [f"seed={seed}", f"steps={STEPS}", f"optimizer.lr={LR}"]
    selection = ARMS[arm]
    recipe = load_recipe(RECIPE, keys + ([] if selection is None else [f"selection={selection}"]))
    with tempfile.TemporaryDirectory() as scratch:
        result = train(recipe, out=Path(scratch) / "run", name="selection", progress=make_progress("quiet"))
    s = result.summary
    return {
        "arm": arm, "seed": seed, "before": s["before"]["accuracy"]["estimate"],
        "after": s["after"]["accuracy"]["estimate"], "policy": s["ledger"]["policy"], "run": s["ledger"]["run"],
    }  # fmt: skip


def evidence(runs: list[dict[str, Any]], seeds: list[int]) -> list[Evidence]:
    """The paired differences of each arm from its control."""
    after = {(r["arm"], r["seed"]): r["after"] for r in runs}
    cost = {arm: sum(r["policy"]["rollouts"] for r in runs if r["arm"] == arm) for arm in ARMS}
    found = []
    for arm, control in PAIRS:
        low, high = t_interval([after[arm, seed] - after[control, seed] for seed in seeds])
        spent = cost[arm] / cost[control]
        found.append(
            Evidence(
                study="selection", method="grpo", row="grpo", claim=f"selection {arm} ends better than {control}",
                metric="held-out greedy accuracy after equal steps", control=f"grpo with selection {control}",
                model="nursery:arithmetic-S", parameters=nursery_parameters("nursery:arithmetic-S"),
                task=f"two-digit sums, {arm}", verdict=verdict(low, high), effect=round((low + high) / 2, 4),
                interval=(round(low, 4), round(high, 4)), seeds=len(seeds),
                reason=f"{spent:.2f} times the rollouts of {control}", command=COMMAND,
            )
        )  # fmt: skip
    return found


def main() -> None:
    """Run what has not run yet, write the evidence, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    arguments = parser.parse_args()
    path = arguments.results / "runs.json"
    runs = json.loads(path.read_text("utf-8")) if path.is_file() else []
    path.parent.mkdir(parents=True, exist_ok=True)
    for seed in arguments.seeds:
        for arm in ARMS:
            if not any((r["arm"], r["seed"]) == (arm, seed) for r in runs):
                runs.append(run(arm, seed))
                atomic_write(path, "[\n " + ",\n ".join(map(json.dumps, runs)) + "\n]\n")
    for arm in ARMS:
        own = [r for r in runs if r["arm"] == arm]
        accuracies = " ".join(f"{r['after']:.3f}" for r in own)
        print(f"| {arm} | {accuracies} | {sum(r['policy']['rollouts'] for r in own)} |")
    found = evidence(runs, arguments.seeds)
    atomic_write(arguments.results / "evidence.json", text_of(found))
    print("\n".join(entry.line() for entry in found))


if __name__ == "__main__":
    main()
