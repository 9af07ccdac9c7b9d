"""Commands about what there is: methods, explain."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from burnish.cli import completion
from burnish.cli.app import KNOWLEDGE, app, examples, wide_console


@app.command(
    rich_help_panel=KNOWLEDGE,
    epilog=examples("burnish methods", "burnish methods --have verifier,demonstrations"),
)
def methods(
    have: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            autocompletion=completion.feedback,
            help="only those that learn from one of these kinds of feedback, such as verifier,demonstrations",
        ),
    ] = None,
) -> None:
    """List the methods: what each does, needs and costs."""
    from burnish.errors import InputError
    from burnish.running.catalogue import list_methods

    held = None if have is None else [word.strip() for word in have.split(",")]
    try:
        found = list_methods(held)
    except InputError as error:
        raise InputError(f"--have: {error}") from None
    if found:
        wide_console().print(found.table())
    else:
        print(f"No method learns from {have} yet.")


@app.command(rich_help_panel=KNOWLEDGE, epilog=examples("burnish explain grpo", "burnish explain grpo --schema"))
def explain(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            autocompletion=completion.methods,
            help="its name; `burnish methods` lists them",
            show_default=False,
        ),
    ],
    schema: Annotated[
        bool, typer.Option("--schema", help="print the JSON schema of its recipes instead, for an editor")
    ] = False,
) -> None:
    """Explain a method and every key of its recipes."""
    from burnish.running.catalogue import explain as look_up

    found = look_up(method)
    if schema:
        print(json.dumps(found.schema, indent=1))
        return
    print(found.heading() + "\n")
    wide_console().print(found.table())
