"""Commands that make pages: report, view."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from burnish.cli import completion
from burnish.cli.app import LOOKING, AsJson, RunArgument, app, examples
from burnish.running.output import results

_SAMPLE, _SEED = 24, 0

Sample = Annotated[
    int, typer.Option(metavar="N", min=0, help="rollouts drawn at random, besides the first, last, best and worst")
]
SampleSeed = Annotated[int, typer.Option(metavar="N", help="which ones are drawn")]


@app.command(
    rich_help_panel=LOOKING,
    epilog=examples("burnish report runs/mine", "burnish report runs/mine --sample 100 --out mine.html"),
)
def report(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_OR_STUDY",
            autocompletion=completion.runs,
            help="a run directory, or the results folder of a study",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="the file to write; by default report.html in that directory")
    ] = None,
    sample: Sample = _SAMPLE,
    seed: SampleSeed = _SEED,
    as_json: AsJson = False,
) -> None:
    """Write the page of a run or a study, and print where it is.

    It holds curves, evaluations, rewards of groups and rollouts token by token, from whatever has been written so far.
    One file; no network, no server.
    """
    from burnish.view.report import write_report

    path = write_report(place, out=out, sample=sample, seed=seed)
    print(json.dumps({"report": str(path), "bytes": path.stat().st_size}) if as_json else path, file=results())


@app.command(
    rich_help_panel=LOOKING,
    epilog=examples(
        "burnish view runs/mine",
        "burnish view runs/mine --host 0.0.0.0 --port 8800   others need the token that is printed",
    ),
)
def view(
    run: RunArgument,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="where to listen; by default this machine alone")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0: any that is free")] = 8765,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            envvar="BURNISH_VIEW_TOKEN",
            help="what a reader must know; made where others can reach the page and none is given",
        ),
    ] = None,
    sample: Sample = _SAMPLE,
    seed: SampleSeed = _SEED,
    as_json: AsJson = False,
) -> None:
    """Serve the page of a run while it goes on; Ctrl-C ends it.

    Curves grow and tables follow without a reload. Nothing can be changed through the page.
    """
    from burnish.view.live.server import view_run

    with view_run(run, host=host, port=port, token=token, sample=sample, seed=seed) as page:
        said = json.dumps({"url": page.url}) if as_json else f"{page.url}\nCtrl-C ends it."
        print(said, file=results(), flush=True)
        try:
            page.wait()
        except KeyboardInterrupt:
            return
