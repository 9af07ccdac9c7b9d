"""The demo over several seeds: held-out accuracy before and after, with paired bootstrap intervals.

    python -m benchmarks.demo_seeds [--seeds 0 1 2 3 4] [--no-training]

`benchmarks.rlvr` for recipes/demo.yaml, with a table that has the format rate too. Results are
benchmarks/results/demo/seed-N.json, the picture is docs/images/demo.svg.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.curves import picture
from benchmarks.rlvr import Run, read, run_seed
from burnish.traces.files import atomic_write

RECIPE = Path("recipes/demo.yaml")
RESULTS = Path("benchmarks/results/demo")
PICTURE = Path("docs/images/demo.svg")
TITLE = "Reward by step: SmolLM2-135M learns to add on two CPU cores"


def table(runs: list[Run]) -> str:
    """The runs as a Markdown table."""
    lines = [
        "| seed | accuracy before | accuracy after | difference, 95 % interval | format before | format after | "
        "training |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        difference = run["comparison"]["difference"]
        before, after = run["before"], run["after"]
        lines.append(
            f"| {run['seed']} | {before['accuracy']['estimate']:.3f} | {after['accuracy']['estimate']:.3f} | "
            f"+{difference['estimate']:.3f} [{difference['low']:.3f}, {difference['high']:.3f}] | "
            f"{before['format_rate']['estimate']:.3f} | {after['format_rate']['estimate']:.3f} | "
            f"{run['train_seconds'] / 60:.1f} min |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the seeds that have no result yet, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--no-training", action="store_true")
    arguments = parser.parse_args()
    if arguments.no_training:
        runs = read(RESULTS)
    else:
        runs = [run_seed(RECIPE, seed, RESULTS / f"seed-{seed}.json") for seed in arguments.seeds]
    print(table(runs))
    atomic_write(PICTURE, picture(TITLE, runs))


if __name__ == "__main__":
    main()
