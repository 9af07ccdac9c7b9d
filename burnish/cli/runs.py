"""Commands about runs: train, config, report, show, data check."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from burnish.cli.app import AsJson, Overrides, RecipeArgument, app, data_app, printable
from burnish.errors import InputError


@app.command()
def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="run directory; by default runs/RECIPE-SEED, numbered")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, only the result")] = False,
    as_json: AsJson = False,
) -> None:
    """Train as a recipe says, and write a run directory."""
    from burnish.running.config import load_recipe
    from burnish.running.progress import make_progress

    loaded = load_recipe(recipe, overrides or ())
    from burnish.api import train as run_training

    with make_progress("json" if as_json else "quiet" if quiet else "auto", Console()) as progress:
        try:
            result = run_training(loaded, name=_run_name(recipe), out=out, progress=progress)
        except KeyboardInterrupt:  # typer would end here without a word
            print("burnish: interrupted; what was recorded stays in the run directory", file=sys.stderr)
            raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({"event": "result", "out": str(result.out), "summary": result.summary}, default=str))
        return
    if quiet and result.evaluations:
        for when, evaluation in (("before", result.evaluations[0]), ("after", result.evaluations[-1])):
            print(f"held-out {when}: {json.dumps(evaluation.summary())}")
    print(f"run: {result.out}")


def _run_name(recipe: Path) -> str:
    """The recipe's name; a run's config.yaml goes by the name of the run."""
    return recipe.resolve().parent.name if recipe.stem == "config" else recipe.stem


@app.command()
def config(recipe: RecipeArgument, overrides: Overrides = None) -> None:
    """Print the resolved recipe: every key with its value."""
    from burnish.running.config import load_recipe, resolved_yaml

    print(resolved_yaml(load_recipe(recipe, overrides or ())), end="")


@app.command()
def report(run: Annotated[Path, typer.Argument(metavar="RUN", help="a run directory")]) -> None:
    """Write report.html into a run directory from what the run has written so far."""
    from burnish.view.report import write_report

    print(write_report(run))


@app.command()
def show(
    place: Annotated[Path, typer.Argument(metavar="FILE_OR_RUN", help="a traces .parquet file, or a run directory")],
    group: Annotated[int | None, typer.Option(help="only this group, counted from 0")] = None,
    limit: Annotated[int, typer.Option(min=0, help="tokens printed of each member; 0: all")] = 200,
    tokenizer: Annotated[
        str | None, typer.Option(help="a tokenizer.json, or a model; by default the run's own")
    ] = None,
) -> None:
    """Print rollouts token by token: author, role, mask, log-probability, signals."""
    from burnish.traces.show import show_groups
    from burnish.view.tokens import run_tokenizer, stored_groups

    file, groups = stored_groups(place)
    if group is not None and not 0 <= group < len(groups):
        raise InputError(f"{file} has {len(groups)} groups, numbered from 0; there is no group {group}")
    chosen = groups if group is None else [groups[group]]
    show_groups(chosen, Console(), run_tokenizer(place, tokenizer), limit or None)


@data_app.command("check")
def data_check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="a JSONL file of rows")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="keys of `data`")] = None,
    demonstrations: Annotated[bool, typer.Option("--demonstrations", help="as supervised training reads it")] = False,
) -> None:
    """Read a file as training would, and show its first task."""
    from burnish.running.config import spec_from_mapping
    from burnish.tasks import build_tasks
    from burnish.tasks.spec import DataSpec

    tasks = build_tasks(
        spec_from_mapping(DataSpec, {"path": file}, overrides or (), name="data"), demonstrations=demonstrations
    )
    first = tasks[0]
    print(f"{len(tasks)} tasks; the first:")
    print(printable(f"prompt: {first.text}\nanswer: {first.answer}"))
    if demonstrations:
        print(printable(f"demonstration: {first.demonstration}"))
