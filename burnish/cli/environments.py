"""Commands about environments: probe, gate."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli.app import KNOWLEDGE, AsJson, app, examples, printable, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from burnish.environments.sandbox.probe import Row
    from burnish.studies.gate import GateReport

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


@env_app.command(
    epilog=examples(
        "burnish env gate lookup",
        "burnish env gate grid 'levels=[1,2]' --tasks 100 --json",
        "burnish env gate recipes/nursery/lookup-grpo.yaml",
    )
)
def gate(
    target: Annotated[
        str, typer.Argument(metavar="NAME", help="a world (lookup, grid, hackable), or a recipe with an environment")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="keys of the world, or of the recipe")
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="tasks of each level that are tried")] = 40,
    as_json: AsJson = False,
) -> None:
    """Check that an environment's tasks can be done and cannot be had for nothing.

    An oracle must do every task, twice. An untouched environment, doing nothing, and each shortcut must fail; reruns
    must agree; nothing private may stand in the opening; harder levels must be harder. Ends with status 1 when a check
    fails.
    """
    from burnish.studies.gate import gate as put_to_gate

    report = put_to_gate(target, overrides or (), tasks=tasks)
    if as_json:
        print(json.dumps(report.to_json(), indent=1), file=results())
    else:
        wide_console().print(_checks(report))
        verdict = "admitted" if report.admitted else "not admitted"
        print(f"{report.name}: {verdict}, {report.tasks} tasks, {1000 * report.seconds_an_attempt:.2f} ms an attempt")
    if not report.admitted:
        raise typer.Exit(1)


def _checks(report: GateReport) -> Any:
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("check", no_wrap=True), "passed", Column("seen", overflow="fold"), show_edge=False)
    for check in report.checks:
        table.add_row(Text(printable(check.name)), "yes" if check.passed else "no", Text(printable(check.seen)))
    return table
