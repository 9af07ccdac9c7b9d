"""Commands about data: data check."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from burnish.cli import completion
from burnish.cli.app import AsJson, Template, data_app, examples, printable
from burnish.errors import InputError
from burnish.running.output import results


@data_app.command(
    "check",
    epilog=examples(
        "burnish data check rows.jsonl prompt=question answer=total",
        "burnish data check chats.parquet --model nursery:arithmetic-S --max-tokens 512",
        "burnish data check pairs.json format=alpaca_preference --json",
        "burnish data check hub:trl-lib/ultrafeedback_binarized split=train",
        "burnish data check family:arithmetic family.digits=[3]",
    ),
)
def data_check(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="rows: .jsonl, .json, .parquet, a folder that `datasets` saved, hub:ID; or family:NAME",
            show_default=False,
        ),
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KEY=VALUE",
            autocompletion=completion.data_keys,
            help="keys of `data` in a recipe, such as prompt=question or format=alpaca",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            autocompletion=completion.models,
            help="render every row as this model is shown it, and hold it against its context",
        ),
    ] = None,
    template: Template = "auto",
    max_tokens: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="most tokens of a row, in place of the model's context")
    ] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="as methods that sample read it: the prompts alone")
    ] = False,
    demonstrations: Annotated[
        bool, typer.Option("--demonstrations", help="as supervised training reads it: every row shows an answer")
    ] = False,
    rows: Annotated[int, typer.Option("--rows", metavar="N", min=1, help="rows shown of each kind of mistake")] = 3,
    as_json: AsJson = False,
) -> None:
    """Check every row of data, as training would read it.

    Says which format the rows have and what is wrong with which, by kind, and shows the first task. With --model every
    row is also rendered. Ends with status 1 when there are rows that training could not use.
    """
    if prompts and demonstrations:
        raise InputError("data check: --prompts and --demonstrations are two ways to read the same rows; give one")
    from burnish.running.checking import check_data
    from burnish.tasks.report import described

    want = "prompts" if prompts else "demonstrations" if demonstrations else None
    report = check_data(file, overrides or (), want=want, model=model, template=template, max_tokens=max_tokens)
    if as_json:
        print(json.dumps(report.summary(rows), indent=1, ensure_ascii=False), file=results())
    else:
        print(printable(report.text(rows)))
        if report.tasks:
            print(printable(f"the first:\n{described(report.tasks[0])}"))
    if report.errors:
        raise typer.Exit(1)
