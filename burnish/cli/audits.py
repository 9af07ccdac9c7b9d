"""The command audit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from burnish.cli.app import LOOKING, AsJson, RunArgument, Seed, app, examples, printable, wide_console
from burnish.running.output import results

if TYPE_CHECKING:
    from burnish.studies.audits import AuditReport


@app.command(
    rich_help_panel=LOOKING,
    epilog=examples(
        "burnish audit runs/mine",
        "burnish audit runs/mine --only hacking --only gap --json",
        "burnish audit runs/mine --models --tasks 32",
    ),
)
def audit(
    run: RunArgument,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="only this audit, such as hacking; may be given several times"),
    ] = None,
    models: Annotated[
        bool, typer.Option("--models", help="also audits that load the run's models and sample from them")
    ] = False,
    base: Annotated[
        str | None, typer.Option(metavar="MODEL", help="what the run began with; by default its recipe's model")
    ] = None,
    checkpoint: Annotated[
        int | None, typer.Option(metavar="N", help="audit the weights of checkpoints/step-N, and not final/")
    ] = None,
    tasks: Annotated[int, typer.Option(metavar="N", min=1, help="with --models: tasks that are sampled")] = 64,
    samples: Annotated[
        int, typer.Option(metavar="N", min=1, help="with --models: samples of each task for pass@k")
    ] = 16,
    matrices: Annotated[int, typer.Option(metavar="N", min=1, help="matrices that are taken apart at most")] = 24,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Audit a run: what a rising reward hides.

    Reward hacking, diversity, length against reward, group health, the gap of sampler and learner, discarded samples,
    authors, the update of the weights; with --models transfer, and pass@k against the base model. Each audit has a
    level (ok, look, fault) by a stated rule, figures with 95 % intervals, and says what it cannot tell. Ends with
    status 1 where one finds a fault.
    """
    from burnish.studies.audits import audit as put_to_audit

    report = put_to_audit(
        run, only or (), models=models, base=base, checkpoint=checkpoint, tasks=tasks, samples=samples,
        matrices=matrices, seed=seed,
    )  # fmt: skip
    if as_json:
        print(json.dumps(report.to_json(), indent=1), file=results())
    else:
        _show(report)
    if report.level == "fault":
        raise typer.Exit(1)


def _show(report: AuditReport) -> None:
    console = wide_console()
    console.print(_table(report))
    for finding in report.findings:
        if finding.level is not None and finding.level != "ok":
            print(printable(f"{finding.audit}: {finding.rule}"))
            print(printable("\n".join(f"    {figure}" for figure in finding.figures)))
    for finding in report.findings:
        if finding.level is not None:
            print(printable(f"{finding.audit} cannot tell: {finding.cannot_tell}"))
    print(printable(f"{report.run}: {report.level or 'nothing measured'}"))


def _table(report: AuditReport) -> Any:
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("audit", no_wrap=True), Column("level", no_wrap=True), Column("seen", overflow="fold"),
                  show_edge=False)  # fmt: skip
    for finding in report.findings:
        table.add_row(finding.audit, finding.level or "not measured", Text(printable(finding.says)))
    return table
