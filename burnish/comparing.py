"""A study from its file to its table: what the command and a notebook call."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from burnish.errors import InputError
from burnish.running.output import results as output
from burnish.running.progress import Mode, Progress, make_progress, plain
from burnish.studies.comparison.categories import check_categories
from burnish.studies.comparison.cells import Cell, cells_of, check_cells, place_of
from burnish.studies.comparison.reading import read_study
from burnish.studies.comparison.results import evidence_of, results_of
from burnish.studies.comparison.running import Places, off_budget, read_cell, run_cells
from burnish.studies.comparison.series import Key, Series
from burnish.studies.comparison.spec import StudySpec
from burnish.studies.comparison.table import markdown
from burnish.traces.files import atomic_write

if TYPE_CHECKING:
    from burnish.running.pipelines.run import PipelineResult

RESULTS = Path("benchmarks/results")
"""Folder of the results of studies."""


@dataclass(frozen=True)
class StudyResult:
    """What a study came to: its folder, its results as JSON values, its table, and the cells that ran just now."""

    out: Path
    results: dict[str, Any]
    table: str
    ran: tuple[str, ...] = ()

    @property
    def verdicts(self) -> list[dict[str, Any]]:
        """The comparisons with their verdicts."""
        return self.results["comparisons"]


def study(
    file: str | Path,
    *,
    overrides: Sequence[str] = (),
    out: str | Path | None = None,
    table: bool = False,
    progress: Progress | Mode = "auto",
) -> StudyResult:
    """Run what is not done of a study, and work out its table (docs/studies.md).

    `overrides` are changes to the file, such as "seeds=3". `out` is the folder of its results, by default
    benchmarks/results/STUDY: a JSON file for each finished cell, named by the hash of its configuration and not run
    again while it is there, `results.json`, `table.md` and `evidence.json`. With `table` nothing is run.

    Raises InputError for anything wrong in the file, its recipes, models and data, before anything runs, with `table`
    also when there is no cell; and for a cell that spent another budget than declared. Interrupted, it raises
    InterruptedRunError: what is finished is kept.
    """
    spec = read_study(file, overrides)
    place = RESULTS / spec.study if out is None else Path(out)
    cells = cells_of(spec, str(file))
    ran: list[Cell] = []
    if not table:
        check_cells(cells, str(file))
        check_categories(spec, cells[0].recipes[0], str(file))
        places = Places(place, Path("runs/studies") / spec.study)
        with _display(progress) as shown:
            shown.message(f"{spec.study}: {spec.question}")
            ran = run_cells(spec, cells, places, shown, _run_pipeline)
    series = _series(spec, cells, place)
    if not series:
        raise InputError(f"{place} holds no cell of this study: run `burnish study {file}` first")
    command = " ".join(["burnish study", str(file), *overrides])
    found = _rounded(plain(results_of(spec, series, command)))
    text = markdown(found)
    evidence = evidence_of(spec, series, found, {name: _model(spec, name) for name in spec.models})
    atomic_write(place / "results.json", json.dumps(found, indent=1) + "\n")
    atomic_write(place / "table.md", text)
    lines = ",\n ".join(json.dumps(entry) for entry in evidence)
    atomic_write(place / "evidence.json", f'{{"entries": [\n {lines}\n]}}\n')
    return StudyResult(place, found, text, tuple(cell.title for cell in ran))


def _run_pipeline(pipeline: Mapping[str, Any], **options: Any) -> PipelineResult:
    from burnish.pipelines import run_pipeline  # imports torch, which a table does not need

    return run_pipeline(pipeline, **options)


def _rounded(value: Any) -> Any:
    """Six digits of every number: the next ones differ between machines."""
    if isinstance(value, dict):
        return {key: _rounded(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _display(progress: Progress | Mode) -> AbstractContextManager[Progress]:
    return make_progress(progress, Console(file=output())) if isinstance(progress, str) else nullcontext(progress)


def _series(spec: StudySpec, cells: Sequence[Cell], place: Path) -> dict[Key, Series]:
    """The finished cells. Files of other configurations are left alone."""
    found: dict[Key, Series] = {}
    for cell in cells:
        path = place_of(place, cell)
        if path.exists():
            values = read_cell(path)
            key = (cell.method, cell.model, cell.task, cell.seed)
            found[key] = Series(spec, values, off_budget(spec.budget, values))
    return found


def _model(spec: StudySpec, name: str) -> str:
    """The path of a model."""
    changes = spec.models[name].set
    return str(changes["model.path"] if "model.path" in changes else changes["model"]["path"])
