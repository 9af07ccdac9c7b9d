"""Commands about runs: train, config, report, show."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import completion
from burnish.cli.app import (
    LOOKING,
    RUNNING,
    AsJson,
    Overrides,
    RecipeArgument,
    app,
    examples,
)
from burnish.errors import InputError
from burnish.running.output import results


@app.command(
    rich_help_panel=RUNNING,
    epilog=examples(
        "burnish train recipes/nursery/grpo.yaml",
        "burnish train recipes/demo.yaml steps=10 optimizer.lr=1e-5 --out runs/mine",
        "burnish train recipes/demo.yaml steps=10 optimizer.lr=1e-5 --out runs/mine --resume",
    ),
)
def train(
    recipe: RecipeArgument,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            autocompletion=completion.runs,
            help="run directory, a new one; by default runs/RECIPE-SEED, numbered where taken",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="go on with the run in --out (by default the newest of this recipe and seed)"),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="with --resume: although the recipe has changed since")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, only the result")] = False,
    as_json: AsJson = False,
) -> None:
    """Train as a recipe says, and write a run directory.

    The directory holds the configuration, metrics, traces, checkpoints, the trained model in final/, and report.html.
    Ctrl-C finishes the step and saves; a second one stops at once.
    """
    from rich.console import Console

    from burnish.running.config import load_recipe
    from burnish.running.progress import make_progress

    loaded = load_recipe(recipe, overrides or ())
    from burnish.api import train as run_training

    with make_progress("json" if as_json else "quiet" if quiet else "auto", Console(file=results())) as progress:
        try:
            result = run_training(
                loaded, name=_run_name(recipe), out=out, resume=resume, force=force, progress=progress
            )
        except KeyboardInterrupt:  # typer would end here without a word
            print(
                "burnish: interrupted at once; what was recorded stays in the run directory, go on with --resume",
                file=sys.stderr,
            )
            raise typer.Exit(130) from None
    if as_json:
        print(
            json.dumps({"event": "result", "out": str(result.out), "summary": result.summary}, default=str),
            file=results(),
        )
        return
    if quiet and result.evaluations:
        for when, evaluation in (("before", result.evaluations[0]), ("after", result.evaluations[-1])):
            print(f"held-out {when}: {json.dumps(evaluation.summary())}")
    print(f"run: {result.out}")


def _run_name(recipe: Path) -> str:
    """The recipe's name; a run's config.yaml goes by the name of the run."""
    return recipe.resolve().parent.name if recipe.stem == "config" else recipe.stem


@app.command(
    rich_help_panel=RUNNING,
    epilog=examples(
        "burnish config recipes/demo.yaml optimizer.lr=1e-5",
        "burnish config runs/mine/config.yaml --plain",
        "burnish config --schema > recipe.schema.json",
    ),
)
def config(
    recipe: Annotated[
        Path | None,
        typer.Argument(metavar="RECIPE", autocompletion=completion.recipes, help="a recipe, or a run's config.yaml"),
    ] = None,
    overrides: Overrides = None,
    plain: Annotated[bool, typer.Option("--plain", help="without where each value comes from")] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="print the JSON schema of any recipe instead, for an editor")
    ] = False,
) -> None:
    """Print what a recipe resolves to: every key and its value.

    Behind each value stands where it comes from: a line of the file, the command line, or a default.
    """
    if schema:
        from burnish.running.config import any_recipe_schema

        if recipe is not None or plain:
            raise InputError("config: --schema is the same for every recipe; give it alone")
        print(json.dumps(any_recipe_schema(), indent=1))
        return
    from burnish.running.catalogue import config as resolve

    if recipe is None:
        raise InputError("config: a recipe is missing, such as `burnish config recipes/demo.yaml`")
    print(resolve(recipe, overrides or (), plain=plain), end="")


@app.command(
    rich_help_panel=LOOKING,
    epilog=examples(
        "burnish show runs/mine --group 0 --limit 20",
        "burnish show runs/mine/traces/step-000001.parquet --limit 0",
    ),
)
def show(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="FILE_OR_RUN",
            autocompletion=completion.runs,
            help="a run directory (its last stored step), or a traces .parquet file",
            show_default=False,
        ),
    ],
    group: Annotated[int | None, typer.Option(metavar="N", help="only this group, counted from 0")] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=0, help="tokens printed of each member; 0: all")] = 200,
    tokenizer: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="a tokenizer.json, or a model; by default the run's own"),
    ] = None,
) -> None:
    """Print rollouts token by token.

    Each token has its author, role, log-probability and signals; the column mask names what trains it.
    """
    from rich.console import Console

    from burnish.view.show import show as look

    look(place, group=group, limit=limit, tokenizer=tokenizer).print(Console())
