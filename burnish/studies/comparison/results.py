"""The results of a study as JSON values: verdicts, what finals hide, whole curves, ranks, cost. numpy alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from burnish.studies.comparison.cells import seeds_of
from burnish.studies.comparison.curves import below, ranks
from burnish.studies.comparison.paired import t_interval
from burnish.studies.comparison.series import Key, Series, shares_of
from burnish.studies.comparison.spec import Scope, StudySpec
from burnish.studies.comparison.verdicts import Comparison, comparisons

SCOPES: tuple[Scope, ...] = ("in", "across", "all", "lowest")


def results_of(spec: StudySpec, series: Mapping[Key, Series], command: str) -> dict[str, Any]:
    """Everything that the table says, and the curves it comes from."""
    rows = [_row(spec, series, model, task, method) for model, task, method in _places(spec)]
    return {
        "study": spec.study,
        "question": spec.question,
        "row": spec.row,
        "command": command,
        "declared": spec.model_dump(mode="json", include={"budget", "primary", "claims", "seeds", "test", "last"}),
        "cells": {
            "wanted": sum(seeds_of(spec, m) for m in spec.models) * len(spec.tasks) * len(spec.methods),
            "done": len(series),
            "unequal": sum(one.off is not None for one in series.values()),
            "seconds": round(sum(one.values["seconds"] for one in series.values()), 1),
        },
        "comparisons": [one.to_json() for one in comparisons(spec, series)],
        "shares": shares_of(spec),
        "rows": rows,
        "ranks": list(_ranks(spec, rows)),
    }


def _places(spec: StudySpec) -> Iterator[tuple[str, str, str]]:
    for model in spec.models:
        for task in spec.tasks:
            yield from ((model, task, method) for method in spec.methods)


def _row(spec: StudySpec, series: Mapping[Key, Series], model: str, task: str, method: str) -> dict[str, Any]:
    """One method on one task from one model: means over its seeds, with t intervals."""
    own = [s for seed in range(seeds_of(spec, model)) if (s := series.get((method, model, task, seed)))]
    row: dict[str, Any] = {"model": model, "task": task, "method": method, "seeds": len(own)}
    if not own:
        return row
    row["unequal"] = sum(one.off is not None for one in own)
    row["spent"] = _mean([one.spent[-1] for one in own])
    for scope in SCOPES:
        row[scope] = _scope(spec, own, scope)
    if spec.primary.control != method:
        control = [series.get((spec.primary.control, model, task, one.values["seed"])) for one in own]
        shares = shares_of(spec)
        pairs = [(o.at_shares("in", shares), c.at_shares("in", shares)) for o, c in zip(own, control, strict=True) if c]
        row["below_control"] = _mean([share for o, c in pairs if (share := below(o, c)) is not None])
    flops = _mean([one.cost("flops") for one in own])
    gained = row["in"]["gains"]["1"]
    row["cost"] = {
        "flops": flops,
        "seconds": _mean([one.cost("seconds") for one in own]),
        "sampled_tokens": _mean([one.cost("sampled_tokens") for one in own]),
        "trained_tokens": _mean([one.cost("trained_tokens") for one in own]),
        "flops_per_point": flops / (100 * gained) if flops is not None and gained and gained > 0 else None,
    }
    return row


def _scope(spec: StudySpec, own: Sequence[Series], scope: Scope) -> dict[str, Any] | None:
    found = [each for one in own if (each := one.measures(scope)) is not None]
    if not found:
        return None
    curves = [one.at_shares(scope, shares_of(spec)) for one in own]
    return {
        **{key: _mean([getattr(each, key) for each in found]) for key in ("start", "best", "last_mean", "area")},
        "last": _interval([each.last for each in found]),
        "drawdown": _mean([each.drawdown for each in found]),
        "collapsed": sum(each.collapsed for each in found),
        "gains": {share: _mean([each.gains[share] for each in found]) for share in found[0].gains},
        "curve": [_mean(list(values)) for values in zip(*curves, strict=True)],
        "band": _band(curves),
    }


def _band(curves: Sequence[Sequence[float | None]]) -> list[list[float | None]] | None:
    """The least and the most of the 95 % interval of the mean at each share of the budget; None of fewer than two."""
    if len(curves) < 2:
        return None
    at = [[value for value in values if value is not None] for values in zip(*curves, strict=True)]
    intervals = [_interval(values) if len(values) == len(curves) else {"low": None, "high": None} for values in at]
    return [[interval[end] for interval in intervals] for end in ("low", "high")]


def _mean(values: Sequence[float | None]) -> float | None:
    """The mean of all; None when one is missing, or there is none."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known and len(known) == len(values) else None


def _interval(values: Sequence[float]) -> dict[str, float | None]:
    """Mean over seeds with its 95 % interval; of one seed there is none."""
    if len(values) < 2:
        return {"mean": values[0], "low": None, "high": None}
    found = t_interval(values)
    return {"mean": found.estimate, "low": found.low, "high": found.high}


def _ranks(spec: StudySpec, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """For every model and task: the methods by their last value and by their area, and whether the two agree."""
    sign = 1.0 if spec.primary.direction == "higher" else -1.0
    for model in spec.models:
        for task in spec.tasks:
            mine = [r for r in rows if (r["model"], r["task"]) == (model, task) and r["seeds"]]
            if len(mine) < 2:
                continue
            by_last = ranks({r["method"]: sign * r["in"]["last"]["mean"] for r in mine})
            by_area = ranks({r["method"]: sign * r["in"]["area"] for r in mine})
            yield {"model": model, "task": task, "last": by_last, "area": by_area, "agree": by_last == by_area}


def evidence_of(
    spec: StudySpec, series: Mapping[Key, Series], results: Mapping[str, Any], paths: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The comparisons of methods as entries of an `evidence.json` (docs/choosing.md).

    A method counts as evidence of the registered method of its last stage. `paths` is the model of each entry.
    """
    found = []
    for one in comparisons(spec, series):
        if one.family != "methods" or one.method is None:
            continue
        cells = [s for (method, model, _, _), s in series.items() if (method, model) == (one.method, one.model)]
        if cells:
            found.append(_entry(spec, one, cells, results["command"], paths[one.model]))
    return found


def _entry(spec: StudySpec, one: Comparison, cells: Sequence[Series], command: str, model: str) -> dict[str, Any]:
    stages = [stage["method"] for stage in cells[0].values["stages"]]
    scopes = {"in": "in distribution", "across": "across", "all": "all categories", "lowest": "lowest lift"}
    names = ", ".join(spec.tasks)
    ledgers = [cell.values["ledger"] for cell in cells]
    roles = sorted({role for ledger in ledgers for role in ledger if role != "evaluation"})
    counts = {
        role: {
            key: round(float(np.mean([ledger.get(role, {}).get(key, 0) for ledger in ledgers])), 3)
            for key in sorted({key for ledger in ledgers for key in ledger.get(role, {})})
        }
        for role in roles
    }
    reason = one.reason or (f"stages {' then '.join(stages)}" if len(stages) > 1 else None)
    measured = one.interval is not None
    return {
        "study": spec.study, "method": stages[-1], "row": spec.row,
        "claim": f"{one.claim} under the same {spec.budget.unit.replace('_', ' ')}",
        "metric": f"held-out greedy accuracy, {one.metric.replace('_', ' ')}, {scopes[one.scope]}",
        "control": str(one.control), "model": model, "task": f"mean of {names}", "verdict": one.verdict,
        "effect": round(one.interval.estimate, 4) if one.interval and measured else None,
        "interval": [round(one.interval.low, 4), round(one.interval.high, 4)] if one.interval and measured else None,
        "over": "seeds", "seeds": len(one.differences), "reason": reason or None, "command": command,
        "cost": {
            "steps": sum(stage["steps"] for stage in cells[0].values["stages"]), "counts": counts,
            "machine": cells[0].values["machine"],
        },
    }  # fmt: skip
