"""The command about studies. torch is imported when a cell runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli import completion
from burnish.cli.app import RUNNING, AsJson, app, examples, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@app.command(
    rich_help_panel=RUNNING,
    epilog=examples(
        "burnish study recipes/studies/nursery.yaml",
        "burnish study recipes/studies/nursery.yaml seeds=3 --out runs/three-seeds",
        "burnish study recipes/studies/sft-rl.yaml --table",
    ),
)
def study(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            autocompletion=completion.recipes,
            help="a study, such as recipes/studies/nursery.yaml",
            show_default=False,
        ),
    ],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="changes to it, such as seeds=3")
    ] = None,
    table: Annotated[
        bool, typer.Option("--table", help="only work out the table from the cells that are there")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="where results go; by default benchmarks/results/STUDY")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="no progress, only the verdicts")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare methods on models and tasks over paired seeds.

    Every cell may spend the same budget. One that is done is not run again, so an interrupted study goes on when it is
    run once more. The verdicts are printed; the whole table is in table.md.
    """
    from burnish.comparing import study as run

    mode = "json" if as_json else "quiet" if quiet or table else "auto"
    done = run(file, overrides=changes or (), out=out, table=table, progress=mode)
    if as_json:
        print(json.dumps({"event": "result", "out": str(done.out), "results": done.results}), file=results())
        return
    wide_console().print(_table(done.verdicts))
    cells = done.results["cells"]
    print(f"{cells['done']} of {cells['wanted']} cells; table: {done.out / 'table.md'}")


def _table(verdicts: Sequence[Mapping[str, Any]]) -> Any:
    from rich.table import Column, Table
    from rich.text import Text

    found = Table(
        "claim", "model", "measure", Column("difference", no_wrap=True), "seeds", Column("verdict", no_wrap=True),
        "why", show_edge=False,
    )  # fmt: skip
    for one in verdicts:
        interval = one["interval"]
        effect = ""
        if interval is not None:
            effect = f"{interval['estimate']:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"
        cells = (
            one["claim"], one["model"], f"{one['metric']}, {one['scope']}", effect, str(len(one["differences"])),
            one["verdict"], one["reason"],
        )  # fmt: skip
        found.add_row(*(Text(cell) for cell in cells))  # no markup: a name may hold brackets
    return found
