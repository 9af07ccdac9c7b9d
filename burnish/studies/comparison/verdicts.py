"""Comparisons of a study and their verdicts: shown, not shown, opposite, or untested with the reason. numpy alone.

The rule is the one that every study has: a 95 % t interval over paired seeds, Holm's correction within a family of
comparisons, and no verdict at all where the control did not learn, had no room, or cells are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from burnish.studies.comparison.cells import seeds_of
from burnish.studies.comparison.paired import holm, t_interval, t_test
from burnish.studies.comparison.series import Key, Series
from burnish.studies.comparison.spec import ClaimSpec, Metric, Scope, SideSpec, StudySpec
from burnish.studies.statistics import Interval

Verdict = Literal["shown", "not shown", "opposite", "untested"]
Family = Literal["methods", "methods by task", "claims"]

ALPHA = 0.05
CEILING = 0.9
"""A control that ends above this share leaves no room to see anything better."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: paired differences over seeds, in the direction in which more is better."""

    family: Family
    claim: str
    model: str
    metric: Metric
    scope: Scope
    smallest: float
    wanted: int
    """Seeds that were declared."""
    differences: tuple[float, ...]
    control_ends: tuple[float, ...]
    """What the control comes to, seed by seed."""
    control_gains: tuple[float, ...]
    """How far the control moves from its start on what it trains on, seed by seed."""
    unequal: int = 0
    """Cells left out since they spent another budget."""
    method: str | None = None
    control: str | None = None
    task: str | None = None
    p: float | None = None
    """Holm's, within the family."""
    interval: Interval | None = None
    verdict: Verdict = "untested"
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def comparisons(spec: StudySpec, series: Mapping[Key, Series]) -> list[Comparison]:
    """Every comparison that the study declares, with its verdict."""
    found: list[Comparison] = []
    for family in ("methods", "methods by task", "claims"):
        found += judged([_compared(spec, series, family, *each) for each in _declared(spec, family)], spec)
    return found


_Declared = tuple[str, str, SideSpec, SideSpec, Metric, Scope, float]


def _declared(spec: StudySpec, family: str) -> Iterator[_Declared]:
    """Model, claim, the two sides, metric, scope and smallest effect of each comparison of a family."""
    primary = spec.primary
    others = [name for name in spec.methods if name != primary.control]
    for model in spec.models:
        if family == "claims":
            yield from ((model, c.claim, c.better, c.than, *_about(c, spec)) for c in spec.claims)
            continue
        for tasks in [None] if family == "methods" else [(task,) for task in spec.tasks]:
            for method in others:
                sides = (SideSpec(method=method, tasks=tasks), SideSpec(method=primary.control, tasks=tasks))
                claim = f"{method} against {primary.control}" + (f", {tasks[0]}" if tasks else "")
                yield model, claim, *sides, primary.metric, primary.scope, primary.smallest


def _about(claim: ClaimSpec, spec: StudySpec) -> tuple[Metric, Scope, float]:
    return claim.metric, claim.scope, claim.smallest or spec.primary.smallest


def _compared(
    spec: StudySpec,
    series: Mapping[Key, Series],
    family: Family,
    model: str,
    claim: str,
    better: SideSpec,
    than: SideSpec,
    metric: Metric,
    scope: Scope,
    smallest: float,
) -> Comparison:
    sign = 1.0 if spec.primary.direction == "higher" else -1.0
    differences, ends, gains, unequal = [], [], [], 0
    for seed in range(seeds_of(spec, model)):
        cells = [_cells(spec, series, side, model, seed, scope) for side in (better, than)]
        unequal += sum(one is not None and one.off is not None for side in cells for one in side)
        one, two = (_mean(side, metric, scope) for side in cells)
        moved = _mean_gain(cells[1])
        if one is not None and two is not None and moved is not None:
            differences.append(sign * (one - two))
            ends.append(two)
            gains.append(sign * moved)
    task = better.tasks[0] if better.tasks == than.tasks and better.tasks is not None else None
    return Comparison(
        family=family, claim=claim, model=model, metric=metric, scope=scope, smallest=smallest,
        wanted=seeds_of(spec, model), differences=tuple(differences), control_ends=tuple(ends),
        control_gains=tuple(gains), unequal=unequal, method=better.method, control=than.method, task=task,
    )  # fmt: skip


def _cells(
    spec: StudySpec, series: Mapping[Key, Series], side: SideSpec, model: str, seed: int, scope: Scope
) -> list[Series | None]:
    """The cells of a side; None for one that is missing. Those without categories in the scope are left out."""
    methods = [side.method] if side.method else list(spec.methods)
    found = [series.get((m, model, task, seed)) for task in side.tasks or spec.tasks for m in methods]
    return [one for one in found if one is None or one.chosen(scope)]


def _mean(cells: Iterable[Series | None], metric: Metric, scope: Scope) -> float | None:
    """The mean over a side's cells; None when one is missing, spent another budget, or there is none."""
    values = [None if one is None or one.off is not None else one.value(metric, scope) for one in cells]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _mean_gain(cells: Iterable[Series | None]) -> float | None:
    found = [one.measures("in") for one in cells if one is not None]
    moved = [each.last - each.start for each in found if each is not None]
    return float(np.mean(moved)) if moved else None


# ---------------------------------------------------------------- the rule


def judged(family: Sequence[Comparison], spec: StudySpec) -> list[Comparison]:
    """The comparisons of a family with intervals, p values corrected for their number, and verdicts."""
    measured = [one for one in family if len(one.differences) >= 2]
    corrected = iter(holm([t_test(one.differences) for one in measured]))
    found = []
    for one in family:
        if len(one.differences) < 2:
            found.append(_verdict(one, spec))
        else:
            found.append(_verdict(replace(one, p=next(corrected), interval=t_interval(one.differences)), spec))
    return found


def _verdict(one: Comparison, spec: StudySpec) -> Comparison:
    reason = _untested(one, spec)
    if reason or one.interval is None or one.p is None:
        return replace(one, verdict="untested", reason=reason)
    effect, low, high = one.interval.estimate, one.interval.low, one.interval.high
    if one.p < ALPHA and low > 0 and effect >= one.smallest:
        return replace(one, verdict="shown")
    if one.p < ALPHA and high < 0 and effect <= -one.smallest:
        return replace(one, verdict="opposite")
    return replace(one, verdict="not shown", reason=_small(one.interval, one.p, one.smallest))


def _untested(one: Comparison, spec: StudySpec) -> str:
    """Why there is no verdict; empty where there is one."""
    if one.unequal:
        return f"{one.unequal} cells spent another budget"
    if len(one.differences) < one.wanted:
        return f"{len(one.differences)} of {one.wanted} seeds are done"
    ends = float(np.mean(one.control_ends))
    if spec.primary.direction == "higher" and one.scope != "lowest" and ends > CEILING:
        return f"the control ends at {ends:.3f}, which leaves no room"
    moved = t_interval(one.control_gains)
    if not moved.excludes_zero:
        return f"the control does not move from its start ({_signed(moved)})"
    return ""


def _small(interval: Interval, p: float, smallest: float) -> str:
    """What else a reader should know of an effect that is not shown."""
    if max(abs(interval.low), abs(interval.high)) < smallest:
        return f"smaller than {smallest:g} either way"
    if interval.excludes_zero and p >= ALPHA:
        return "not after the correction for several comparisons"
    if interval.excludes_zero:
        return f"there, but smaller than {smallest:g}"
    return ""


def _signed(interval: Interval) -> str:
    return f"{interval.estimate:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
