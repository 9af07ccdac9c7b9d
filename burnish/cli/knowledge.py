"""Commands about methods: methods, explain."""

from __future__ import annotations

import json
from typing import Annotated, get_args

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from burnish.cli.app import app
from burnish.errors import InputError


@app.command()
def methods(
    have: Annotated[str | None, typer.Option(help="only those that can use: verifier,demonstrations,...")] = None,
) -> None:
    """List the methods: what each does, needs and costs."""
    from burnish.methods.method import Need
    from burnish.methods.registry import METHODS
    from burnish.tasks.suggest import did_you_mean

    held = {word.strip() for word in have.split(",") if word.strip()} if have is not None else None
    for word in sorted(held or ()):
        if word not in get_args(Need):
            raise InputError(f"--have: there is no kind of feedback {word!r}; {did_you_mean(word, get_args(Need))}")
    table = Table("method", "what it does", "status", "needs one of", "cost", show_edge=False)
    chosen = [method for method in METHODS.values() if held is None or held & set(method.needs)]
    for m in chosen:
        table.add_row(m.name, escape(m.summary), m.status, ", ".join(m.needs), escape(m.cost))
    if chosen:
        _console().print(table)
    else:
        print(f"No method learns from {have} yet.")


@app.command()
def explain(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="its name; `burnish methods` lists them")],
    schema: Annotated[bool, typer.Option("--schema", help="print the JSON schema of its recipes")] = False,
) -> None:
    """Explain a method: idea, needs, cost, source, and every key of its recipes."""
    from burnish.methods.registry import METHODS
    from burnish.running.config import documented_keys, recipe_schema
    from burnish.tasks.suggest import did_you_mean

    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {did_you_mean(method, METHODS)}")
    if schema:
        print(json.dumps(recipe_schema(method), indent=1))
        return
    m = METHODS[method]
    lines = [f"{m.name}: {m.summary}", f"needs one of: {', '.join(m.needs)}", f"cost: {m.cost}"]
    print("\n".join([*lines, f"source: {m.citation}", f"page: {m.page}", f"status: {m.status}", ""]))
    table = Table(Column("key", no_wrap=True), "takes", "default", "meaning", show_edge=False)
    for key in documented_keys(m.recipe):
        table.add_row(*(Text(cell) for cell in (key.key, key.type, key.default, key.description)))
    _console().print(table)


def _console() -> Console:
    """A terminal as wide as it is, and never so narrow that a key is cut; wide where nobody looks at it directly."""
    console = Console()
    return Console(width=max(console.width, 120 if console.is_terminal else 200))
