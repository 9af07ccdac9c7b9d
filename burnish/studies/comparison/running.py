"""Running the cells that are not there yet, each to one JSON file. torch is imported when the first one runs."""

from __future__ import annotations

import json
import platform
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from burnish.errors import BurnishError, InputError, RunError
from burnish.ledger import QUANTITIES, summed
from burnish.methods.recipe import Recipe
from burnish.running.interrupts import InterruptedRunError, Interrupts
from burnish.running.pipelines.artefacts import versions
from burnish.running.progress import Progress, QuietProgress, duration, plain
from burnish.studies.comparison.categories import categories
from burnish.studies.comparison.cells import FORMAT, Cell, place_of, settings_of
from burnish.studies.comparison.spec import BudgetSpec, StudySpec, Unit
from burnish.studies.evaluation import Evaluation
from burnish.traces.files import atomic_write


@dataclass(frozen=True)
class Places:
    """Where a study's results go, and where its cells run meanwhile."""

    results: Path
    work: Path


RunPipeline = Callable[..., Any]
"""`burnish.run_pipeline`, which lies above this room."""


def run_cells(
    spec: StudySpec, cells: Sequence[Cell], places: Places, progress: Progress, run_pipeline: RunPipeline
) -> list[Cell]:
    """Run every cell whose file is not there as a pipeline, and return those that ran.

    Raises InputError when another budget than the declared one was spent and that is not allowed, InterruptedRunError
    when asked to stop: what is finished is kept, and a cell that was at work goes on where it was.
    """
    tell = progress.message
    left = [cell for cell in cells if not place_of(places.results, cell).exists()]
    tell(f"{len(cells)} cells, {len(cells) - len(left)} of them there already")
    took: list[float] = []
    with Interrupts() as interrupts:
        for number, cell in enumerate(left, 1):
            began = time.perf_counter()
            progress.phase("cells", number - 1, len(left))
            values = _run(spec, cell, places.work / cell.hash, run_pipeline)
            took.append(time.perf_counter() - began)
            atomic_write(place_of(places.results, cell), _text(values))
            shutil.rmtree(places.work / cell.hash, ignore_errors=True)
            rest = statistics.median(took) * (len(left) - number)
            tell(f"{number} of {len(left)}: {cell.title}: {_curve(values)}, {took[-1]:.1f} s, left {duration(rest)}")
            check_budget(spec.budget, cell, values)
            if interrupts.requested and number < len(left):
                raise InterruptedRunError(f"stopped after {cell.title}; run it again to go on")
    progress.phase("cells", len(left), len(left))
    return left


def check_budget(budget: BudgetSpec, cell: Cell, values: Mapping[str, Any]) -> None:
    """Raise InputError when a cell spent another budget than declared, and the study does not allow it."""
    share = off_budget(budget, values)
    if share is None or budget.unequal:
        return
    steps = ", ".join(str(max(1, round(recipe.steps / share))) for recipe in cell.recipes)
    raise InputError(
        f"{cell.title} spent {share * budget.amount:.4g} {budget.unit} where the budget is {budget.amount:.4g}: the "
        f"comparison would be unequal. Give this method {steps} steps, change budget.amount, or declare it with "
        "budget.unequal: true, which marks the cell in the table"
    )


def off_budget(budget: BudgetSpec, values: Mapping[str, Any]) -> float | None:
    """The share of the budget that a cell spent, where that is too much or too little; None where it is equal."""
    share = values["points"][-1]["spent"][budget.unit] / (budget.amount * budget.beyond)
    return None if abs(share - 1) <= max(budget.tolerance, 1e-9) else share


def _run(spec: StudySpec, cell: Cell, work: Path, run_pipeline: RunPipeline) -> dict[str, Any]:
    """Run a cell as a pipeline and read what its runs wrote."""
    began = time.perf_counter()
    try:
        done = run_pipeline(cell.pipeline, out=work, progress=QuietProgress())
    except InterruptedRunError:
        raise InterruptedRunError(f"stopped in {cell.title}; run it again to go on") from None
    except BurnishError as error:
        raise type(error)(f"{cell.title}: {error}") from error
    runs = [node.artefact.path / "run" for node in done.nodes]
    kinds = categories(spec.test.category, cell.recipes[0])
    counts: list[Mapping[str, Any]] = []
    points: list[dict[str, Any]] = []
    before: dict[str, float] = dict.fromkeys(get_args(Unit), 0.0)
    for stage, run in enumerate(runs, 1):
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text("utf-8").splitlines()]
        for file in sorted((run / "evaluations").glob("step-*.json")):
            evaluation = Evaluation.load(file)
            step = int(evaluation.notes["step"])
            if stage > 1 and step == 0:
                continue  # the end of the stage before
            spent = _added(before, spent_in(r for r in records if r["step"] <= step))
            points.append({"stage": stage, "step": step, "spent": spent, "right": rights(evaluation, kinds)})
        before = _added(before, spent_in(records))
        counts.append(json.loads((run / "summary.json").read_text("utf-8"))["ledger"])
    return {
        "format": FORMAT, "study": spec.study, "method": cell.method, "model": cell.model, "task": cell.task,
        "seed": cell.seed, "hash": cell.hash, "points": points, "ledger": _together(counts),
        "stages": [
            {"method": r.method, "steps": r.steps, "settings": settings_of(r)}
            for r in cell.recipes
        ],
        "seconds": round(time.perf_counter() - began, 1), "versions": versions(), "machine": _machine(cell.recipes[0]),
    }  # fmt: skip


# ---------------------------------------------------------------- what a run wrote


def spent_in(records: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """What steps cost, in every unit that a budget may have; the held-out evaluations are left out."""
    taken = list(records)
    roles = {role: counts for role, counts in summed(taken).items() if role not in ("evaluation", "run")}
    policy = roles.get("policy", {})
    return {
        "steps": len(taken),
        "prompts": policy.get("prompts", 0),
        "sampled_tokens": policy.get("sampled_tokens", 0),
        "trained_tokens": policy.get("trained_tokens", 0),
        "flops": sum(counts.get("flops", 0) for counts in roles.values()),
        "seconds": round(sum(r["timing/collect_seconds"] + r["timing/update_seconds"] for r in taken), 3),
    }


def _added(before: Mapping[str, float], more: Mapping[str, float]) -> dict[str, float]:
    return {key: round(before[key] + more[key], 3) for key in more}


def _together(ledgers: Iterable[Mapping[str, Mapping[str, Any]]]) -> dict[str, dict[str, float]]:
    """The ledgers of the stages as one; seconds are `seconds`."""
    total: dict[str, dict[str, float]] = {}
    for ledger in ledgers:
        for role, counts in ledger.items():
            for name, count in counts.items():
                key = name.removeprefix("timing/")
                assert key in QUANTITIES
                inner = total.setdefault(role, {})
                inner[key] = round(inner.get(key, 0) + count, 3)
    return total


def rights(evaluation: Evaluation, kinds: Mapping[str, str]) -> dict[str, list[int]]:
    """Category -> right answers, and how many were judged. Raises RunError where none was."""
    found: dict[str, list[int]] = {}
    for item in evaluation.items:
        if item.correct is not None:
            counts = found.setdefault(kinds[item.task], [0, 0])
            counts[0] += bool(item.correct)
            counts[1] += 1
    if not found:
        raise RunError(f"evaluation {evaluation.name}: no answer was judged, so there is nothing to compare")
    return dict(sorted(found.items()))


# ---------------------------------------------------------------- files, and what is told


def _text(values: Mapping[str, Any]) -> str:
    """A cell as JSON, an evaluation a line."""
    head = {key: value for key, value in values.items() if key != "points"}
    lines = ",\n  ".join(json.dumps(plain(point)) for point in values["points"])
    return json.dumps(plain(head), indent=1).removesuffix("\n}") + f',\n "points": [\n  {lines}\n ]\n}}\n'


def read_cell(path: Path) -> dict[str, Any]:
    """The values of a cell's file. Raises InputError for one that is damaged."""
    try:
        values = json.loads(path.read_text("utf-8"))
        if values["format"] != FORMAT:
            raise InputError(f"{path} was written by another version of studies; move it away to have it made anew")
        return values
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: not a cell of a study ({error!r}); move it away to have it made anew") from None


def _curve(values: Mapping[str, Any]) -> str:
    """First and last accuracy."""
    first, last = (values["points"][place]["right"] for place in (0, -1))
    return " -> ".join(
        f"{sum(r for r, _ in counts.values()) / sum(n for _, n in counts.values()):.3f}" for counts in (first, last)
    )


def _machine(recipe: Recipe) -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return f"{name or platform.machine()}, {recipe.threads or 'all'} thread{'s' * (recipe.threads != 1)}"
