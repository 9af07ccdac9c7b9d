"""What a notebook calls for pipelines: run one, or look at what running it would do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from burnish.running.output import results
from burnish.running.pipelines.artefacts import Store
from burnish.running.pipelines.checks import check_inputs
from burnish.running.pipelines.contents import Contents
from burnish.running.pipelines.graph import Graph, build_graph
from burnish.running.pipelines.plan import Step, plan
from burnish.running.pipelines.reading import read_pipeline
from burnish.running.pipelines.run import MEMORY, PipelineResult, run_graph
from burnish.running.progress import Mode, Progress, make_progress

__all__ = ["PipelineResult", "Step", "run_pipeline", "show_pipeline"]

Source = str | Path | Mapping[str, Any]


def run_pipeline(
    pipeline: Source,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | Mode = "auto",
) -> PipelineResult:
    """Run what is not done of a pipeline: a YAML file, or a mapping of the same shape (docs/pipelines.md).

    `out` is its directory, by default runs/NAME; what is done there is kept, and what was interrupted goes on.
    `overrides` are changes as on the command line: "grpo.steps=20", "seed=1". `progress` is a display, or the mode of
    one. Relative paths are taken from the current folder.

    Raises InputError for anything wrong in the file, its recipes, data and reward functions, before anything runs, and
    when another pipeline runs in `out`; and what a node raises, with its name.
    """
    graph, place = _read(pipeline, overrides, out)
    steps = plan(graph, Store(place), Contents(place / MEMORY))
    check_inputs(graph, [step.node.id for step in steps if step.state != "done"])

    def display() -> AbstractContextManager[Progress]:
        return make_progress(progress, Console(file=results())) if isinstance(progress, str) else nullcontext(progress)

    from burnish.nodes import EXECUTORS  # imports torch

    return run_graph(graph, place, EXECUTORS, display)


def show_pipeline(
    pipeline: Source, *, out: str | Path | None = None, overrides: Sequence[str] = ()
) -> tuple[Graph, list[Step]]:
    """The graph of a pipeline, and for each node what is done or would run, and why. Imports no torch.

    Raises InputError as `run_pipeline` does for the file, its recipes, and paths that do not exist.
    """
    graph, place = _read(pipeline, overrides, out)
    return graph, plan(graph, Store(place), Contents(place / MEMORY))


def _read(pipeline: Source, overrides: Sequence[str], out: str | Path | None) -> tuple[Graph, Path]:
    graph = build_graph(read_pipeline(pipeline, overrides))
    return graph, Path("runs") / graph.name if out is None else Path(out)
