"""A recipe over several seeds: reward by step, held-out accuracy before and after with its paired interval.

    python -m benchmarks.rlvr RECIPE [RECIPE ...] [--seeds 0 1 2] [--results benchmarks/results/rlvr]
                              [--pictures docs/images] [--no-training]

Every finished seed is written as RESULTS/NAME/seed-N.json and skipped the next time while the resolved recipe is the
same; NAME is the recipe's path below recipes/, `rlvr-maths` or `nursery-grpo`. At the end a table is printed, a row for
each seed, and PICTURES/NAME.svg is drawn for each recipe from the JSON files. With `--no-training` only what is there
is read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.curves import picture
from burnish.api import train
from burnish.errors import InputError
from burnish.running.config import load_recipe, resolved_yaml
from burnish.running.progress import make_progress
from burnish.traces.files import atomic_write

RESULTS = Path("benchmarks/results/rlvr")
PICTURES = Path("docs/images")
KEPT = ("reward", "length", "truncated", "reward_missing", "zero_variance_groups", "turns", "sampler_gap",
        "timing/seconds", "timing/tokens_per_second")  # fmt: skip
"""Of a step's record; components of the reward and held-out shares are kept as well."""

Run = dict[str, Any]
"""What is stored of a seed: the run's summary and, under `steps_recorded`, what is kept of its steps."""


def name_of(recipe: Path) -> str:
    """`recipes/rlvr/maths.yaml` is rlvr-maths."""
    parts = recipe.with_suffix("").parts
    below = parts[parts.index("recipes") + 1 :] if "recipes" in parts else parts[-1:]
    return "-".join(below)


def run_seed(path: Path, seed: int, target: Path) -> Run:
    """Train one seed and write `target`, or read it where the same recipe has been run before."""
    recipe = load_recipe(path, [f"seed={seed}"])
    digest = hashlib.sha256(resolved_yaml(recipe).encode()).hexdigest()[:16]
    if target.exists():
        known: Run = json.loads(target.read_text("utf-8"))
        if known["recipe"] == digest:
            return known
    with tempfile.TemporaryDirectory() as scratch:
        result = train(recipe, out=Path(scratch) / "run", name=name_of(path), progress=make_progress("lines"))
        records = [json.loads(line) for line in (result.out / "metrics.jsonl").read_text("utf-8").splitlines()]
        versions = json.loads((result.out / "run.json").read_text("utf-8"))["environment"]
    steps = [record for record in records if "reward" in record]
    found = {
        "recipe": digest,
        "recipe_path": path.as_posix(),
        "model": recipe.model.path,
        "environment": versions,
        **result.summary,
        "train_seconds": sum(record["timing/seconds"] for record in steps),
        "peak_rss_bytes": max(record["timing/rss_bytes"] for record in steps),
        "steps_recorded": [_kept(record) for record in steps],
    }
    write(found, target)
    return found


def _kept(record: dict[str, Any]) -> dict[str, Any]:
    """What a picture or a reader may ask of a step, to five figures."""
    named = ("reward/", "held_out/")
    kept = {key: value for key, value in record.items() if key in KEPT or key.startswith(named)}
    return {"step": record["step"], **{k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in kept.items()}}


def write(run: Run, target: Path) -> None:
    """One line for each key, and one for each step."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in run.items() if key != "steps_recorded"]
    steps = ",\n".join(f"  {json.dumps(step)}" for step in run["steps_recorded"])
    target.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(target, "{\n" + ",\n".join([*lines, f' "steps_recorded": [\n{steps}\n ]']) + "\n}\n")


def read(folder: Path) -> list[Run]:
    """The runs of a folder in the order of their seeds. Raises InputError when there is none."""
    runs: list[Run] = [json.loads(path.read_text("utf-8")) for path in folder.glob("seed-*.json")]
    if not runs:
        raise InputError(f"{folder} holds no seed-N.json: run without --no-training first")
    return sorted(runs, key=lambda run: run["seed"])


def rewards(run: Run) -> list[float]:
    """Mean reward of each step; NaN where every reward was missing."""
    return [math.nan if step["reward"] is None else float(step["reward"]) for step in run["steps_recorded"]]


def table(runs: dict[str, list[Run]]) -> str:
    """A Markdown table: a row for each recipe and seed; nothing in a cell that was not measured."""
    lines = [
        "| recipe | seed | accuracy before | after | difference, 95 % interval | items | reward, first and last 4 "
        "steps | training |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [f"| {name} | {_row(run)} |" for name, seeds in runs.items() for run in seeds]
    return "\n".join(lines)


def _row(run: Run) -> str:
    before, after, difference, items = "", "", "", ""
    if "comparison" in run:
        found, items = run["comparison"]["difference"], run["comparison"]["items"]
        before, after = (f"{run[key]['accuracy']['estimate']:.3f}" for key in ("before", "after"))
        difference = f"{found['estimate']:+.3f} [{found['low']:.3f}, {found['high']:.3f}]"
    values = [value for value in rewards(run) if math.isfinite(value)]
    ends = " → ".join(f"{sum(part) / len(part):.2f}" for part in (values[:4], values[-4:]))
    took = run["train_seconds"]
    time = f"{took / 60:.1f} min" if took >= 120 else f"{took:.0f} s"
    return f"{run['seed']} | {before} | {after} | {difference} | {items} | {ends} | {time}"


def main() -> None:
    """Run the seeds that have no result yet, print the table, draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pictures", type=Path, default=PICTURES)
    parser.add_argument("--no-training", action="store_true")
    arguments = parser.parse_args()
    runs: dict[str, list[Run]] = {}
    for path in arguments.recipes:
        name = name_of(path)
        folder = arguments.results / name
        if arguments.no_training:
            runs[name] = read(folder)
        else:
            runs[name] = [run_seed(path, seed, folder / f"seed-{seed}.json") for seed in arguments.seeds]
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        atomic_write(arguments.pictures / f"{name}.svg", picture(f"Reward by step: {name}", runs[name]))
    print(table(runs))


if __name__ == "__main__":
    main()
