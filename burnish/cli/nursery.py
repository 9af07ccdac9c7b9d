"""Commands about the nursery: list, build, rates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli import completion
from burnish.cli.app import MODELS, AsJson, Seed, app, examples, printable, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from burnish.nursery import Listed

nursery_app = typer.Typer(
    help="Tiny models that learn in seconds: what there is, building one, measuring one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(nursery_app, name="nursery", rich_help_panel=MODELS)

_NAME = typer.Argument(
    metavar="NAME", autocompletion=completion.nursery, help="such as countdown-M; `burnish nursery list` has them"
)


@nursery_app.command("list", epilog=examples("burnish nursery list", "burnish nursery list --json"))
def list_models(as_json: AsJson = False) -> None:
    """List the nursery's models.

    Each with its parameters, recorded pass rates, and where it comes from: it ships, is built, or is to build. Rates
    are shares of held-out tasks with 95 % intervals, at temperature 1 and greedy.
    """
    from burnish.nursery import list_nursery

    listed = list_nursery()
    if as_json:
        print(json.dumps([model.to_json() for model in listed], indent=1), file=results())
    else:
        wide_console().print(_table(listed))


def _table(listed: list[Listed]) -> Any:
    from rich.table import Column, Table
    from rich.text import Text

    right = {"justify": "right", "no_wrap": True}
    table = Table(
        Column("name", no_wrap=True), Column("parameters", **right), Column("at temperature 1", no_wrap=True),
        Column("greedy", no_wrap=True), "origin", show_edge=False,
    )  # fmt: skip
    for model in listed:
        rates = (Text(str(rate or "not measured")) for rate in (model.sampled, model.greedy))
        table.add_row(model.name, f"{model.parameters:,}", *rates, model.origin)
    return table


@nursery_app.command(
    epilog=examples("burnish nursery build countdown-M", "burnish nursery build knights-L modular-L --out models")
)
def build(
    names: Annotated[list[str] | None, _NAME] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="where models go; by default the cache, for nursery:NAME")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Build models by their committed recipes.

    Each takes minutes of one core; by default all that are not there yet. What is there already is kept, and what was
    interrupted goes on. Where the model ships with the package too, it says whether the weights came out the same.
    """
    from burnish.nursery import build_nursery

    built = build_nursery(names or (), out=out, progress="json" if as_json else "auto")
    if as_json:
        print(json.dumps({"event": "result", "built": [model.to_json() for model in built]}), file=results())
        return
    for model in built:
        same = {None: "", True: "; the same weights as ship", False: "; not the weights that ship, bit for bit"}
        took = f"{model.seconds:.0f} s" if model.seconds else "was there"
        print(printable(f"{model.name}: {model.folder} ({took}{same[model.same_as_shipped]})"))
    if not built:
        print("every model of the nursery ships or is built")


@nursery_app.command(
    epilog=examples("burnish nursery rates arithmetic-S", "burnish nursery rates modular-S --limit 50")
)
def rates(
    name: Annotated[str, _NAME],
    samples: Annotated[int, typer.Option(metavar="N", min=1, help="samples of each task at temperature 1")] = 4,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="only so many tasks")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a model's pass rates.

    On the held-out tasks of its recipe, greedily and at temperature 1, beside those that are recorded.
    """
    from burnish.nursery import nursery_rates

    found = nursery_rates(name, samples=samples, seed=seed, limit=limit)
    if as_json:
        print(json.dumps(found.to_json(), indent=1), file=results())
    else:
        print(found)
