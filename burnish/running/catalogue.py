"""What there is to choose from: methods, the keys of their recipes, and what a recipe resolves to. No torch here."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from burnish.errors import InputError
from burnish.methods.method import Method, Need
from burnish.methods.registry import METHODS
from burnish.running.config import documented_keys, load_recipe, recipe_schema, resolved_yaml
from burnish.running.keys import Key
from burnish.running.keywords import overrides_of
from burnish.running.origins import resolved_with_origins
from burnish.tasks.suggest import did_you_mean

WIDTH = 120
"""Columns of a table that nobody's terminal decides the width of."""


class MethodList(list[Method]):
    """Methods; printed as a table of what each does, needs and costs."""

    def table(self) -> Table:
        """As rich shows it."""
        table = Table("method", "what it does", "status", "needs one of", "cost", show_edge=False)
        for m in self:
            table.add_row(m.name, Text(m.summary), m.status, ", ".join(m.needs), Text(m.cost))
        return table

    def __repr__(self) -> str:
        return _printed(self.table()) if self else "no method"


@dataclass(frozen=True)
class Explanation:
    """A method and the keys of its recipes; printed as text."""

    method: Method
    keys: tuple[Key, ...]

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of its recipes, for an editor."""
        return recipe_schema(self.method.name)

    def heading(self) -> str:
        """Idea, needs, cost, source."""
        m = self.method
        lines = [f"{m.name}: {m.summary}", f"needs one of: {', '.join(m.needs)}", f"cost: {m.cost}"]
        return "\n".join([*lines, f"source: {m.citation}", f"page: {m.page}", f"status: {m.status}"])

    def table(self) -> Table:
        """The keys, as rich shows them."""
        table = Table(Column("key", no_wrap=True), "takes", "default", "meaning", show_edge=False)
        for key in self.keys:
            table.add_row(*(Text(cell) for cell in (key.key, key.type, key.default, key.description)))
        return table

    def __repr__(self) -> str:
        return f"{self.heading()}\n\n{_printed(self.table())}"


def list_methods(have: Iterable[str] | None = None) -> MethodList:
    """The methods, or those that can use one of the kinds of feedback in `have` ("verifier", "demonstrations", ...).

    Raises InputError for a kind there is not.
    """
    held = None if have is None else {have} if isinstance(have, str) else set(have)
    for word in sorted(held or ()):
        if word not in get_args(Need):
            raise InputError(f"there is no kind of feedback {word!r}; {did_you_mean(word, get_args(Need))}")
    return MethodList(m for m in METHODS.values() if held is None or held & set(m.needs))


def explain(method: str) -> Explanation:
    """A method: idea, needs, cost, source, and every key of its recipes. Raises InputError for one there is not."""
    if method not in METHODS:
        raise InputError(f"there is no method {method!r}; {did_you_mean(method, METHODS)}")
    return Explanation(METHODS[method], tuple(documented_keys(METHODS[method].recipe)))


def config(recipe: str | Path, overrides: Sequence[str] = (), *, plain: bool = False, **keys: Any) -> str:
    """What a recipe resolves to, as YAML that loads again: every key, its value, and behind it where that comes from.

    `plain` leaves the origins out. `overrides` are changes such as "optimizer.lr=1e-5"; as keyword arguments they read
    `optimizer__lr=1e-5`. Raises InputError for anything wrong in the recipe.
    """
    changes = [*overrides, *overrides_of(keys)]
    return resolved_yaml(load_recipe(recipe, changes)) if plain else resolved_with_origins(recipe, changes)


def _printed(table: Table) -> str:
    """A table as text."""
    console = Console(file=io.StringIO(), width=WIDTH, force_jupyter=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")
