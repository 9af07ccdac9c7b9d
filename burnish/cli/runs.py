"""Commands about runs: train, config, report, show, data check."""

from __future__ import annotations

import json
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
    directory = out or fresh_directory(Path("runs"), f"{_run_name(recipe)}-{loaded.seed}")
    from burnish.api import train as run_training

    with make_progress("json" if as_json else "quiet" if quiet else "auto", Console()) as progress:
        try:
            result = run_training(loaded, out=directory, progress=progress)
        finally:
            if out is None and directory.is_dir() and not any(directory.iterdir()):
                directory.rmdir()  # the run was refused before it wrote anything
    if as_json:
        print(json.dumps({"event": "result", "out": str(result.out), "summary": result.summary}, default=str))
        return
    for key, value in result.summary.items():
        if isinstance(value, (str, int, float)):
            print(printable(f"{key}: {value:.4g}" if isinstance(value, float) else f"{key}: {value}"))
    print(f"run: {result.out}")


def _run_name(recipe: Path) -> str:
    """The recipe's name; a recipe in a folder of recipes/ keeps the folder's, and config.yaml of a run the run's."""
    stem = recipe.stem
    parent = recipe.resolve().parent.name
    return parent if stem == "config" else stem if parent in ("recipes", "") else f"{parent}-{stem}"


def fresh_directory(parent: Path, name: str) -> Path:
    """A new folder `name` in `parent`, or `name-2`, `name-3`, ... when it is taken; made here, so it stays ours."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 100_000):
            path = parent / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise InputError(f"no run directory can be made in {parent} ({error.strerror}); give one with --out") from None
    raise InputError(f"{parent} holds too many runs called {name}; give a run directory with --out")


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
