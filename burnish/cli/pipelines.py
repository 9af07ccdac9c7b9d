"""Commands about pipelines: run, show. torch is imported when one runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli import completion
from burnish.cli.app import RUNNING, AsJson, app, examples, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from rich.table import Table

pipeline_app = typer.Typer(
    help="Several steps of work as one file: train, sample, judge, filter, merge, evaluate.\n\n"
    "What is done is not done again: run it once more to go on after an interruption or a change.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(
    pipeline_app, name="pipeline", rich_help_panel=RUNNING, short_help="Run several steps of work from one file."
)

_File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE",
        autocompletion=completion.recipes,
        help="a pipeline, such as recipes/pipelines/sft-grpo.yaml",
        show_default=False,
    ),
]
_Changes = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODE.KEY=VALUE", help="changes to it, such as grpo.steps=20 or seed=1"),
]
_Out = Annotated[Path | None, typer.Option(metavar="DIR", help="the pipeline's directory; by default runs/NAME")]


@pipeline_app.command(
    epilog=examples(
        "burnish pipeline run recipes/pipelines/sft-grpo.yaml",
        "burnish pipeline run recipes/pipelines/sft-grpo.yaml grpo.steps=20 --out runs/two-stages",
    )
)
def run(
    file: _File,
    changes: _Changes = None,
    out: _Out = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, only the result")] = False,
    as_json: AsJson = False,
) -> None:
    """Run what is not done of a pipeline.

    Everything in the file is checked first: recipes, references between nodes, data, reward functions. Run it again to
    go on after an interruption, or after a change: only what depends on the change is made anew.
    """
    from burnish.pipelines import run_pipeline

    mode = "json" if as_json else "quiet" if quiet else "auto"
    done = run_pipeline(file, out=out, overrides=changes or (), progress=mode)
    if as_json:
        nodes = {n.id: {"status": n.status, "artefact": str(n.artefact.path), "result": n.result} for n in done.nodes}
        print(json.dumps({"event": "result", "out": str(done.out), "nodes": nodes}), file=results())
        return
    from rich.table import Column, Table

    table = Table(
        Column("node", no_wrap=True), "kind", "", "result", Column("artefact", overflow="fold"), show_edge=False
    )
    for node in done.nodes:
        _row(table, node.id, node.kind, node.status, figures(node.result), node.artefact.path)
    wide_console().print(table)
    print(f"pipeline: {done.out}")


@pipeline_app.command(epilog=examples("burnish pipeline show recipes/pipelines/sft-grpo.yaml grpo.steps=20"))
def show(file: _File, changes: _Changes = None, out: _Out = None, as_json: AsJson = False) -> None:
    """Show the nodes of a pipeline, and what would run.

    For each node: what it takes, whether it is done, and why it would run. Nothing is run.
    """
    from burnish.pipelines import show_pipeline

    _, steps = show_pipeline(file, out=out, overrides=changes or ())
    takes = {s.node.id: ", ".join(dict.fromkeys(i.node for i in s.node.inputs)) for s in steps}
    if as_json:
        nodes = [
            {"node": s.node.id, "kind": s.node.kind, "takes": takes[s.node.id], "state": s.state, "why": s.why}
            for s in steps
        ]
        print(json.dumps(nodes, indent=1), file=results())
        return
    from rich.table import Column, Table

    table = Table(Column("node", no_wrap=True), "kind", "takes", "state", "why", show_edge=False)
    for s in steps:
        _row(table, s.node.id, s.node.kind, takes[s.node.id], s.state, s.why)
    wide_console().print(table)


def figures(result: Mapping[str, Any]) -> str:
    """The figures of a node for people: `items 300, accuracy 0.52`."""
    shown = []
    for name, value in result.items():
        if isinstance(value, Mapping):
            value = ", ".join(f"{count} {what}" for what, count in value.items()) or "none"
        elif isinstance(value, float):
            value = f"{value:.3f}"
        shown.append(f"{name} {'-' if value is None else value}")
    return ", ".join(shown)


def _row(table: Table, *cells: object) -> None:
    from rich.text import Text

    table.add_row(*(Text(str(cell)) for cell in cells))  # no markup: a name may hold brackets
