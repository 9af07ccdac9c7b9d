"""`burnish audit`: reads a run once and puts every audit to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from burnish.errors import InputError
from burnish.studies.audits import authors, discarded, diversity, gap, groups, hacking, length, places, update
from burnish.studies.audits.finding import AuditReport, Finding, UnmeasuredError
from burnish.studies.audits.reading import RunFiles, read_run_files
from burnish.studies.audits.tally import Tally, tally
from burnish.tasks.suggest import did_you_mean


@dataclass
class Setting:
    """A run that is audited, and how much is spent on it."""

    run: RunFiles
    base: str | None = None
    checkpoint: int | None = None
    matrices: int = 24
    tasks: int = 64
    samples: int = 16
    seed: int = 0
    models: bool = False

    @cached_property
    def tally(self) -> Tally:
        """The stored traces, read when first asked for."""
        return tally(self.run)


def _update(setting: Setting) -> Finding:
    run = setting.run
    trained = places.trained(run, setting.checkpoint)
    return update.update(places.base(run, setting.base), trained, matrices=setting.matrices)


def _gap(setting: Setting) -> Finding:
    if not setting.models or setting.tally.gaps:
        return gap.gap(setting.run, setting.tally)
    from burnish.studies.audits.rescored import rescored

    return gap.gap(setting.run, setting.tally, rescored(setting.run, setting.base))


def _transfer(setting: Setting) -> Finding:
    from burnish.studies.audits.transfer import transfer

    return transfer(
        setting.run, base=setting.base, checkpoint=setting.checkpoint, tasks=setting.tasks, seed=setting.seed
    )


def _crossover(setting: Setting) -> Finding:
    from burnish.studies.audits.crossover import crossover

    return crossover(
        setting.run, base=setting.base, checkpoint=setting.checkpoint, tasks=setting.tasks, samples=setting.samples,
        seed=setting.seed,
    )  # fmt: skip


AUDITS: Mapping[str, Callable[[Setting], Finding]] = {
    "hacking": lambda s: hacking.hacking(s.run, s.tally),
    "diversity": lambda s: diversity.diversity(s.run, s.tally),
    "length": lambda s: length.length(s.run, s.tally),
    "groups": lambda s: groups.groups(s.run, s.tally),
    "gap": _gap,
    "discarded": lambda s: discarded.discarded(s.run, s.tally),
    "authors": lambda s: authors.authors(s.run, s.tally),
    "update": _update,
    "transfer": _transfer,
    "crossover": _crossover,
}
"""The audits by name, in the order in which they are told."""

SAMPLING = ("transfer", "crossover")
"""Audits that load the run's models and sample from them."""


def audit(
    run: str | Path,
    only: Sequence[str] | str = (),
    *,
    models: bool = False,
    base: str | Path | None = None,
    checkpoint: int | None = None,
    tasks: int = 64,
    samples: int = 16,
    matrices: int = 24,
    seed: int = 0,
) -> AuditReport:
    """Audit a run directory, finished or not.

    `only` names the audits to make; by default all that read the run's records and weights. `models` also makes those
    that sample from the run's models, `tasks` tasks each, in `crossover` so many `samples` of each. `base` is what the
    run began with, by default its recipe's model; `checkpoint` is the step of the weights to audit in place of final/;
    `matrices` are taken apart at most. An audit that finds nothing to measure says so, with level None; one that was
    named raises InputError instead, as do a directory that is no run's, damaged records and missing checkpoints.
    """
    names = _names(only, models)
    for name, value in {"tasks": tasks, "samples": samples, "matrices": matrices}.items():
        if value < 1:
            raise InputError(f"{name}: given {value}; it takes a whole number >= 1")
    setting = Setting(
        read_run_files(run), None if base is None else str(base), checkpoint, matrices, tasks, samples, seed, models
    )
    findings = []
    for name in names:
        try:
            findings.append(AUDITS[name](setting))
        except UnmeasuredError as reason:
            if only:
                raise InputError(f"{run}: audit {name!r} has nothing to measure: {reason}") from None
            findings.append(Finding(name, None, str(reason)))
    return AuditReport(str(run), tuple(findings), _read(setting))


def _names(only: Sequence[str] | str, models: bool) -> list[str]:
    asked = [only] if isinstance(only, str) else list(only)
    asked = [name.strip() for part in asked for name in part.split(",") if name.strip()]
    for name in asked:
        if name not in AUDITS:
            raise InputError(f"there is no audit {name!r}; {did_you_mean(name, AUDITS)}")
        if name in SAMPLING and not models:
            raise InputError(f"audit {name!r} samples from the run's models, which takes a while: add --models")
    return [name for name in AUDITS if (name in asked if asked else models or name not in SAMPLING)]


def _read(setting: Setting) -> dict[str, int]:
    run = setting.run
    read = {"steps": len(run.metrics), "stored_steps": run.stored_in_all, "stored_steps_read": len(run.stored)}
    if "tally" in vars(setting):
        read |= {"groups": len(setting.tally.units), "members": len(setting.tally.members)}
    return read
