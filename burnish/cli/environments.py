"""Commands about environments: probe."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Any

import typer

from burnish.cli.app import KNOWLEDGE, AsJson, app, examples, printable, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from burnish.environments.sandbox.probe import Row

env_app = typer.Typer(
    help="Environments and the sandbox that code runs in.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(env_app, name="env", rich_help_panel=KNOWLEDGE)


@env_app.command(epilog=examples("burnish env probe", "burnish env probe --json"))
def probe(as_json: AsJson = False) -> None:
    """Measure what the sandbox keeps on this machine, by trying to break out of it.

    A task names under `demands` what it insists on; where that does not hold, its sandbox is refused. Ends with
    status 1 where no sandbox can be made at all. docs/sandbox.md says what each line relies on.
    """
    from burnish.running.probing import probe_sandbox

    found = probe_sandbox()
    rows, starts = list(found.rows), found.starts
    if as_json:
        figures = {
            "provider": "namespace", "user": os.geteuid(), "kernel": platform.release(),
            "holds": [dataclasses.asdict(row) for row in rows],
            "start": None if starts is None else dataclasses.asdict(starts),
        }  # fmt: skip
        print(json.dumps(figures, indent=1), file=results())
    elif starts is not None:
        wide_console().print(_table(rows))
        print(
            f"start: {1000 * starts.median:.1f} ms median, {1000 * starts.slowest:.1f} ms at most, of {starts.count} "
            "sandboxes one after the other, each until /bin/true has run in it"
        )
    if starts is None:
        print(f"burnish: {printable(rows[0].seen)}", file=sys.stderr)
        raise typer.Exit(1)


def _table(rows: list[Row]) -> Any:
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("name", no_wrap=True), "holds", "what", Column("seen", overflow="fold"), show_edge=False)
    for row in rows:
        table.add_row(row.name, "yes" if row.holds else "no", Text(row.promise), Text(printable(row.seen)))
    return table
