"""What there is to choose from: methods, the keys of their recipes, and what a recipe resolves to. No torch here."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from burnish.errors import InputError
from burnish.methods.evidence import UNTESTED, Evidence, evidence_of
from burnish.methods.method import Declaration, Method, Need
from burnish.methods.planning import known, models_of, smallest_recipe
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
        table = Table("method", "what it does", "status", "needs one of", "cost", "measured", show_edge=False)
        for m in self:
            found = evidence_of(m.name)
            measured = f"{found[0].verdict} ({found[0].study})" if found else "nothing yet"
            table.add_row(m.name, Text(m.summary), m.status, ", ".join(m.needs), Text(m.cost), measured)
        return table

    def to_json(self) -> list[dict[str, Any]]:
        """As JSON values: what each is for, needs and costs, and the first of what was measured of it."""
        return [_method_json(method) for method in self]

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

    @property
    def declaration(self) -> Declaration:
        """What runs when a recipe sets nothing but what it must."""
        return self.method.declare(smallest_recipe(self.method))

    @property
    def evidence(self) -> list[Evidence]:
        """Everything that was measured of it."""
        return evidence_of(self.method.name)

    def heading(self) -> str:
        """Idea, needs, cost, source, what it declares, its formula, what was measured."""
        m = self.method
        lines = [f"{m.name}: {m.summary}", f"needs one of: {', '.join(m.needs)}", f"cost: {m.cost}"]
        lines += [f"source: {m.citation}", f"page: {m.page}", f"status: {m.status}"]
        lines += [f"serves: {wanted}: {how}" for wanted, how in m.serves.items()]
        lines += ["", "declaration (defaults)", *(f"  {line}" for line in declared(self.declaration))]
        if m.formula:
            lines += ["", "formula", *(f"  {line}" for line in m.formula.splitlines())]
        measured = [f"  {entry.line()}" for entry in self.evidence] or ["  nothing yet"]
        return "\n".join([*lines, "", "measured", *measured])

    def to_json(self) -> dict[str, Any]:
        """Everything but the keys' schema, as JSON values."""
        declaration = self.declaration
        source = {"kind": kind_of(declaration.source), **declaration.source.model_dump(mode="json")}
        controller = declaration.controller.model_dump(mode="json")
        return {
            **_method_json(self.method),
            "serves": dict(self.method.serves),
            "formula": self.method.formula,
            "page": self.method.page,
            "declaration": {"source": source, "controller": controller, "models": list(models_of(declaration))},
            "measured": [entry.model_dump(mode="json") for entry in self.evidence],
            "keys": [
                {"key": k.key, "takes": k.type, "default": k.default, "meaning": k.description} for k in self.keys
            ],
        }  # fmt: skip

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
    held = None if have is None else set(known([have] if isinstance(have, str) else have, Need, "kind of feedback"))
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


def _method_json(m: Method) -> dict[str, Any]:
    found = evidence_of(m.name)
    return {
        "name": m.name, "summary": m.summary, "rows": list(m.rows), "status": m.status, "needs": list(m.needs),
        "cost": m.cost, "citation": m.citation, "evidence": found[0].short() if found else dict(UNTESTED),
    }  # fmt: skip


def kind_of(spec: BaseModel) -> str:
    """The name of a part: its `kind`, or that of its class.

    >>> from burnish.sources.spec import RolloutsSpec
    >>> kind_of(RolloutsSpec(prompts_per_step=1, samples_per_prompt=2))
    'rollouts'
    """
    kind = getattr(spec, "kind", None)
    return str(kind) if kind else type(spec).__name__.removesuffix("Spec").removesuffix("Controller").lower()


def declared(declaration: Declaration) -> list[str]:
    """A declaration in words: source, phases with annotators and terms, models."""
    lines = [f"source      {_part(declaration.source)}"]
    for number, phase in enumerate(declaration.controller.phases, 1):
        times = f"{phase.passes} pass{'es' * (phase.passes != 1)}"
        lines.append(f"phase {number}     trains {phase.learner}, {times} over the groups of a step")
        lines += [f"  annotator {_part(annotator)}" for annotator in phase.annotators]
        lines += [f"  term      {_part(term)}" for term in phase.terms]
    lines.append(f"controller  {kind_of(declaration.controller)}: the same phases in every step")
    others = models_of(declaration)
    return [*lines, f"models      the policy{''.join(f', {name}' for name in others)}"]


def _part(spec: BaseModel) -> str:
    """`name(key=value, ...)` of a part."""
    values = spec.model_dump(mode="json", exclude_none=True, exclude={"kind"})
    keys = ", ".join(f"{key}={value}" for key, value in values.items())
    return f"{kind_of(spec)}({keys})" if keys else kind_of(spec)


def _printed(table: Table) -> str:
    """A table as text."""
    console = Console(file=io.StringIO(), width=WIDTH, force_jupyter=False, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get().rstrip("\n")
