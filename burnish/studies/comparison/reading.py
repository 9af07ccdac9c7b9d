"""A study's file, read and checked: every name in it is one that it declares. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from burnish.errors import InputError
from burnish.running.config import Reading, spec_of
from burnish.running.overrides import parse_overrides
from burnish.running.yamlfile import read_yaml
from burnish.studies.comparison.spec import StudySpec
from burnish.tasks.suggest import did_you_mean

_HARNESS = ("seed", "steps", "evaluation")
"""Keys of a recipe that a study sets itself."""


def read_study(path: str | Path, overrides: Sequence[str] = ()) -> StudySpec:
    """The study in a YAML file, with KEY=VALUE changes such as "seeds=3" put in.

    Raises InputError naming for every mistake the file and line, the key, and the fix.
    """
    values, lines = read_yaml(Path(path))
    if not isinstance(values, dict) or "methods" not in values:
        raise InputError(
            f"{path} holds no study: it needs study, question, budget, primary, seeds, models, tasks, methods and "
            "test; docs/studies.md shows one"
        )
    reading = Reading(str(path), values, lines, parse_overrides(overrides))
    spec = spec_of(StudySpec, reading)
    mistakes = [f"{reading.place(key)}: {text}" for key, text in _mistakes(spec)]
    if mistakes:
        raise InputError("\n".join(mistakes))
    return spec


def _mistakes(spec: StudySpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Key and what is wrong with it."""
    if spec.primary.control not in spec.methods:
        meant = did_you_mean(spec.primary.control, spec.methods)
        yield ("primary", "control"), f"primary.control: there is no method {spec.primary.control!r}; {meant}"
    for number, claim in enumerate(spec.claims):
        for name, side in (("better", claim.better), ("than", claim.than)):
            key = f"claims.{number}.{name}"
            if side.method is not None and side.method not in spec.methods:
                meant = did_you_mean(side.method, spec.methods)
                yield ("claims", number, name, "method"), f"{key}.method: there is no method {side.method!r}; {meant}"
            for task in side.tasks or ():
                if task not in spec.tasks:
                    meant = did_you_mean(task, spec.tasks)
                    yield ("claims", number, name, "tasks"), f"{key}.tasks: there is no task {task!r}; {meant}"
        if claim.better == claim.than:
            yield ("claims", number), f"claims.{number}: better and than are the same cells; give two that differ"
    if spec.test.category is None:
        scopes = [("primary", spec.primary.scope), *((f"claims.{n}", c.scope) for n, c in enumerate(spec.claims))]
        for key, scope in scopes:
            if scope in ("across", "lowest"):
                yield ("test",), f"{key}.scope: {scope} needs test.category, which tells held-out tasks apart; add it"
        for name, task in spec.tasks.items():
            if task.categories is not None:
                yield ("tasks", name), f"tasks.{name}.categories: unused without test.category; add that, or remove it"
    yield from _taken(spec)


def _taken(spec: StudySpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Keys that the study sets itself."""
    places = [(("models", n), m.set) for n, m in spec.models.items()]
    places += [(("tasks", n), t.set | t.rollouts) for n, t in spec.tasks.items()]
    for name, method in spec.methods.items():
        places += [(("methods", name, "stages", i), stage.set) for i, stage in enumerate(method.stages)]
    for where, changes in places:
        taken = _HARNESS if spec.budget.unit in ("steps", "prompts") else ("seed", "evaluation")
        for key in changes:
            if key.split(".")[0] in taken:
                yield (
                    (*where, "set", key),
                    f"{'.'.join(map(str, where))}.set: {key} is not set here: a study sets it from its seeds, its "
                    "budget and its test; remove it",
                )
    for name, model in spec.models.items():
        if "model.path" not in model.set and not isinstance(model.set.get("model"), dict):
            yield ("models", name), f"models.{name}.set: no model.path: say which model the methods start from"
