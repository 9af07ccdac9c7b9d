"""Held-out tasks that are also trained on: refused, or told of where the recipe says so. No torch here."""

from __future__ import annotations

from collections.abc import Sequence

from burnish.environments.spec import AnyEnvironment
from burnish.errors import InputError
from burnish.methods.recipe import EvaluationSpec
from burnish.tasks import Task
from burnish.tasks.overlap import By, Overlap, overlap


def checked_overlap(
    spec: EvaluationSpec, held_out: Sequence[Task], training: Sequence[Task], environment: AnyEnvironment | None = None
) -> Overlap:
    """What of an evaluation is in the training data.

    Raises InputError where held-out tasks are trained on themselves, unless the spec has `overlap: tell`. What is
    merely alike is told, and not refused.
    """
    found = overlap(held_out, training, by=looked_at(spec, environment))
    if found.same and spec.overlap == "refuse":
        raise InputError(
            f"{found.same} of the {len(held_out)} held-out tasks are also trained on: evaluation.data and data overlap "
            f"(such as {found.example('same task')}); take them out of one of the two, or set evaluation.overlap=tell "
            "to go on and have it told"
        )
    return found


def looked_at(spec: EvaluationSpec, environment: AnyEnvironment | None = None) -> By:
    """What tells a held-out task: its text, its prompt in a generated family, its content in an environment."""
    if (spec.environment or environment) is not None:
        return "content"
    return "text" if spec.data is None or spec.data.family is None else "prompt"
