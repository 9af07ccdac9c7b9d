"""Pass rates of the nursery's models, greedy and at temperature 1, on the held-out tasks of their recipes.

    python -m benchmarks.nursery [NAME ...] [--samples 4] [--write]
    python -m benchmarks.nursery --table
    python -m benchmarks.nursery --model runs/mine/final --recipe recipes/nursery/grpo.yaml

With names (all that ship or are built, where none is given) each is measured and printed beside what is recorded;
`--write` puts it into benchmarks/results/nursery/rates.json, and into burnish/nursery_recipes/models.yaml the three
figures that `burnish nursery list` shows. `--table` prints what is stored, as docs/nursery.md has it. With `--model`
any model is measured on any recipe's held-out tasks.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import re
from pathlib import Path
from typing import Any

from burnish.models.nursery import parameters, pretrained_names
from burnish.models.nursery_list import RECIPES, NurseryEntry, nursery_entries
from burnish.models.nursery_shapes import SIZES
from burnish.nursery import WEIGHTS, nursery_rates
from burnish.studies.evaluation import Evaluation
from burnish.studies.rates import pass_rates
from burnish.traces.files import atomic_write

RESULTS = Path("benchmarks/results/nursery/rates.json")
GRID = ("arithmetic", "modular", "countdown", "knights", "lookup", "grid", "symbols")
"""Families that there is a model of in every size; of the others there is S alone."""

_FIGURES = ("sampled", "greedy")


def measured(entry: NurseryEntry, samples: int) -> dict[str, Any]:
    """What is stored of a model: rates with intervals, what was asked, and which weights these were."""
    folder = entry.folder
    assert folder is not None  # as the caller saw
    rates = nursery_rates(entry.name, samples=samples).measured
    return {
        "parameters": parameters(entry.size),
        "steps": entry.steps,
        "tasks": len(rates["greedy"].items),
        "samples": samples,
        **{key: _figures(rates[key]) for key in _FIGURES},
        "weights": hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:16],
    }


def _figures(evaluation: Evaluation) -> dict[str, Any]:
    """Accuracy with its interval, and in a hackable world the share of the cheap text and what is deserved."""
    accuracy = evaluation.accuracy
    assert accuracy is not None  # every answer was judged
    found: dict[str, Any] = {key: round(value, 4) for key, value in dataclasses.asdict(accuracy).items()}
    components = evaluation.notes.get("components", {})
    return found | {key: round(components[key], 4) for key in ("true", "hack") if key in components}


def write(found: dict[str, dict[str, Any]]) -> None:
    """Put models' figures into the results, one line each, and into models.yaml."""
    known = json.loads(RESULTS.read_text("utf-8")) if RESULTS.is_file() else {}
    known |= found
    lines = [f" {json.dumps(name)}: {json.dumps(known[name])}" for name in nursery_entries() if name in known]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    atomic_write(RESULTS, "{\n" + ",\n".join(lines) + "\n}\n")
    listed = (RECIPES / "models.yaml").read_text("utf-8").splitlines()
    atomic_write(RECIPES / "models.yaml", "\n".join(_with_rates(line, found) for line in listed) + "\n")


def _with_rates(line: str, found: dict[str, dict[str, Any]]) -> str:
    """A line of models.yaml with the figures of its model in place of those it has."""
    name = line.partition(":")[0]
    if name not in found:
        return line
    bare = re.sub(r", (?:sampled|greedy): \[[^\]]*\]", "", line)
    figures = {key: [found[name][key][part] for part in ("estimate", "low", "high")] for key in _FIGURES}
    texts = (f", {key}: [{', '.join(f'{value:.3f}' for value in values)}]" for key, values in figures.items())
    return bare.removesuffix("}") + "".join(texts) + "}"


def table() -> list[str]:
    """The lines of the table in docs/nursery.md: a row for each family and size, and for what was not built a word."""
    known = json.loads(RESULTS.read_text("utf-8"))
    lines = ["| Model | Steps | At temperature 1 | Greedy | |", "|---|--:|---|---|---|"]
    families = dict.fromkeys(entry.family for entry in nursery_entries().values())
    for family in families:
        for size in SIZES:
            name = f"{family}-{size}"
            if name in known:
                ships = _remark(name, known[name])
                rates = " | ".join(_interval(known[name][key]) for key in _FIGURES)
                lines.append(f"| `{name}` | {known[name]['steps']} | {rates} | {ships} |")
            elif family in GRID:
                lines.append(f"| `{name}` | | not built | not built | |")
    return lines


def _remark(name: str, found: dict[str, Any]) -> str:
    parts = ["ships"] if name in pretrained_names() else []
    if "hack" in found["greedy"]:
        parts.append(f"cheap text {found['sampled']['hack']:.3f} and {found['greedy']['hack']:.3f}")
    return "; ".join(parts)


def _interval(found: dict[str, float]) -> str:
    return f"{found['estimate']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"


def main() -> None:
    """Measure and print; with `--write` store as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--model")
    parser.add_argument("--recipe", default="recipes/nursery/grpo.yaml")
    arguments = parser.parse_args()
    if arguments.model:
        for key, evaluation in pass_rates(arguments.model, arguments.recipe, samples=arguments.samples).items():
            print(f"{key}: {_figures(evaluation)}")
        return
    if arguments.table:
        print("\n".join(table()))
        return
    entries = nursery_entries()
    for entry in [entries[name] for name in arguments.names] or [e for e in entries.values() if e.folder is not None]:
        found = measured(entry, arguments.samples)
        print(entry.name, json.dumps(found), flush=True)
        if arguments.write:
            write({entry.name: found})


if __name__ == "__main__":
    main()
