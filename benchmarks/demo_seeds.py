"""The demo over several seeds: held-out accuracy before and after, with paired bootstrap intervals.

    python -m benchmarks.demo_seeds [--seeds 0 1 2 3 4] [--results benchmarks/results/demo]

Every finished seed is written as JSON and skipped the next time while the resolved recipe is the same. At the end the
table is printed and docs/images/demo.svg is drawn from the JSON files.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from burnish.api import train
from burnish.running.config import load_recipe, resolved_yaml
from burnish.running.progress import make_progress

RECIPE = Path("recipes/demo.yaml")
PICTURE = Path("docs/images/demo.svg")


def run_seed(seed: int, results: Path) -> dict[str, Any]:
    """Run one seed, or read it where the same recipe has been run before."""
    recipe = load_recipe(RECIPE, [f"seed={seed}"])
    digest = hashlib.sha256(resolved_yaml(recipe).encode()).hexdigest()[:16]
    target = results / f"seed-{seed}.json"
    if target.exists():
        known: dict[str, Any] = json.loads(target.read_text())
        if known["recipe"] == digest:
            return known
    with tempfile.TemporaryDirectory() as scratch:
        result = train(recipe, out=Path(scratch) / "run", progress=make_progress("lines"))
        lines = (result.out / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    keep = ("reward", "length", "truncated", "timing/seconds", "timing/tokens_per_second", "sampler_gap")
    found = {
        "recipe": digest,
        **result.summary,
        "train_seconds": sum(r["timing/seconds"] for r in records),
        "peak_rss_bytes": max(r["timing/rss_bytes"] for r in records),
        "steps_recorded": [{"step": r["step"], **{k: r[k] for k in keep if k in r}} for r in records],
    }
    results.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")
    return found


def table(runs: list[dict[str, Any]]) -> str:
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


def picture(runs: list[dict[str, Any]]) -> str:
    """Mean reward of each step for every seed (thin) and their mean (thick), as SVG."""
    width, height, left, bottom, top, right = 760, 300, 56, 44, 40, 150
    steps = len(runs[0]["steps_recorded"])

    def point(step: float, value: float) -> str:
        x = left + (step - 1) / max(1, steps - 1) * (width - left - right)
        return f"{x:.1f},{height - bottom - value * (height - bottom - top):.1f}"

    series = [[s["reward"] or 0.0 for s in run["steps_recorded"]] for run in runs]
    mean = [sum(values) / len(values) for values in zip(*series, strict=True)]
    thin = "".join(
        f'<polyline points="{" ".join(point(i + 1, v) for i, v in enumerate(one))}" fill="none" stroke="#0b7a6f" '
        'stroke-opacity=".28" stroke-width="1.2"/>'
        for one in series
    )
    thick = (
        f'<polyline points="{" ".join(point(i + 1, v) for i, v in enumerate(mean))}" fill="none" stroke="#0b7a6f" '
        'stroke-width="3"/>'
    )
    grid = "".join(
        f'<line x1="{left}" x2="{width - right}" y1="{point(1, v).split(",")[1]}" y2="{point(1, v).split(",")[1]}" '
        f'stroke="#d9d5cc"/><text x="{left - 8}" y="{float(point(1, v).split(",")[1]) + 4:.1f}" '
        f'text-anchor="end">{v:.2g}</text>'
        for v in (0, 0.25, 0.5, 0.75, 1.0)
    )
    before = sum(r["before"]["accuracy"]["estimate"] for r in runs) / len(runs)
    after = sum(r["after"]["accuracy"]["estimate"] for r in runs) / len(runs)
    items = runs[0]["comparison"]["items"]
    side = "".join(
        f'<text x="{width - right + 16}" y="{y}" {style}>{text}</text>'
        for y, style, text in (
            (110, 'fill="#646b75"', "held-out accuracy"), (140, 'font-size="24" font-weight="650"', f"{before:.2f}"),
            (164, 'fill="#646b75"', "became"), (194, 'font-size="24" font-weight="650" fill="#0b7a6f"', f"{after:.2f}"),
            (220, 'fill="#646b75"', f"{items} items"), (238, 'fill="#646b75"', f"{len(runs)} seeds"),
        )
    )  # fmt: skip
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui,sans-serif" font-size="12.5" fill="#1d2126">'
        f'<rect width="{width}" height="{height}" rx="10" fill="#fbfaf8"/>'
        f'<text x="{left}" y="24" font-weight="600">Reward by step: SmolLM2-135M learns to add on two CPU cores</text>'
        f"{grid}{thin}{thick}"
        f'<text x="{left}" y="{height - 12}" fill="#646b75">step 1</text><text x="{width - right}" y="{height - 12}" '
        f'text-anchor="end" fill="#646b75">step {steps}</text>{side}</svg>\n'
    )


def main() -> None:
    """Run the seeds that have no result yet, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results/demo"))
    arguments = parser.parse_args()
    runs = [run_seed(seed, arguments.results) for seed in arguments.seeds]
    print(table(runs))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(picture(runs))


if __name__ == "__main__":
    main()
