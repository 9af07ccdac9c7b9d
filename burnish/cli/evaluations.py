"""What `burnish eval` does with its options. torch is imported when a model is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burnish.errors import InputError
from burnish.running.progress import make_progress

if TYPE_CHECKING:
    from burnish.studies.suite import Evaluations

DEFAULT = "family:arithmetic"


@dataclass(frozen=True)
class Request:
    """The options of the command line."""

    model: str
    tasks: list[str]
    data: str | None
    overrides: tuple[str, ...]
    against: str | None
    training_data: tuple[str, ...]
    template: str
    seed: int
    save: Path | None
    dtype: str

    @property
    def names(self) -> list[str]:
        """The tasks by name."""
        return self.tasks or [self.data or DEFAULT]


@dataclass(frozen=True)
class Shown:
    """What is printed: as JSON values, and as text."""

    values: dict[str, Any]
    text: str


def run(request: Request, *, quiet: bool) -> Shown:
    """Evaluate, or read what was saved, and compare. Raises InputError."""
    _check(request)
    after = _evaluations(request.model, request, quiet)
    if request.save is not None:
        alone = None if request.tasks or len(after.found) != 1 else next(iter(after.found))
        (alone or after).save(request.save)
    shown = _alone(request, after)
    if request.against is None:
        return shown
    from burnish.studies.suite import against

    found = against(_evaluations(request.against, request, quiet), after, seed=request.seed)
    return Shown({**shown.values, "against": found.to_json()}, f"{shown.text}\n{found}")


def _check(request: Request) -> None:
    """Tell what is wrong with the options before torch is imported."""
    from burnish.studies.naming import asked

    if request.tasks and request.data is not None:
        raise InputError("--tasks and --data both name what to evaluate; give one")
    if request.save is not None and (request.save.is_dir() or not request.save.parent.is_dir()):
        raise InputError(f"--save: {request.save} is a folder, or lies in none; give a file in a folder that exists")
    if _saved(request.model):
        named = request.tasks or request.overrides or request.training_data or request.data
        if named and (request.against is None or _saved(request.against)):
            raise InputError(f"{request.model} holds what was evaluated: tasks, keys and training data are unused")
        return
    for name in request.names:
        asked(name, request.overrides)


def _saved(model: str) -> bool:
    """Whether a name is that of a saved evaluation."""
    return model.endswith(".json")


def _evaluations(model: str, request: Request, quiet: bool) -> Evaluations:
    from burnish.studies.suite import evaluate_tasks, load_evaluations

    if _saved(model):
        return load_evaluations(model)
    from rich.console import Console

    # progress goes to stderr, so that the result alone is on stdout
    with make_progress("quiet" if quiet else "auto", Console(stderr=True)) as progress:
        told: Callable[[int, int], None] = lambda done, total: progress.phase("evaluating", done, total)  # noqa: E731
        return evaluate_tasks(
            model, request.names, request.overrides, training_data=request.training_data, seed=request.seed,
            dtype=request.dtype, template=request.template, progress=told,  # pyright: ignore[reportArgumentType]
        )  # fmt: skip


def _alone(request: Request, found: Evaluations) -> Shown:
    """One task without --tasks has its summary besides the rows."""
    if request.tasks or len(found.found) != 1:
        return Shown(found.to_json(), str(found))
    [one] = found.found
    loud = [line for shared in found.contamination.values() for line in shared.lines()]
    rows = str(found) if one.samples > 1 else str(one)
    return Shown({**one.summary(), **found.to_json()}, rows if one.samples > 1 else "\n".join([*loud, rows]))
