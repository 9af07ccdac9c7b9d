"""From the files of finished cells to curves by scope, and to one number a cell. numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from burnish.studies.comparison.curves import Measures, at, measures
from burnish.studies.comparison.spec import Metric, Scope, StudySpec

Key = tuple[str, str, str, int]
"""Method, model, task, seed."""


@dataclass(frozen=True)
class Series:
    """A finished cell: what it spent and what was right, evaluation by evaluation."""

    spec: StudySpec
    values: Mapping[str, Any]
    off: float | None
    """The share of the budget that it spent, where it missed it."""

    @property
    def task(self) -> str:
        """What it was trained on."""
        return self.values["task"]

    @cached_property
    def spent(self) -> list[float]:
        """The budget spent at each evaluation."""
        return [point["spent"][self.spec.budget.unit] for point in self.values["points"]]

    @cached_property
    def categories(self) -> list[str]:
        """Categories of the held-out tasks."""
        return sorted(self.values["points"][0]["right"])

    def chosen(self, scope: Scope) -> list[str]:
        """The categories of a scope; none where there are none."""
        own = self.spec.tasks[self.task].categories
        if scope in ("all", "lowest"):
            return self.categories
        return [c for c in self.categories if (own is None or c in own) == (scope == "in")]

    def curve(self, scope: Scope) -> list[float] | None:
        """The share of right answers at each evaluation, the mean over the scope's categories; None without any.

        Of scope `lowest` it is the rise of the category that has risen least.
        """
        chosen = self.chosen(scope)
        if not chosen:
            return None
        by = np.array([[p["right"][c][0] / p["right"][c][1] for c in chosen] for p in self.values["points"]])
        return [float(v) for v in ((by - by[0]).min(1) if scope == "lowest" else by.mean(1))]

    def measures(self, scope: Scope) -> Measures | None:
        """What the curve comes to; None without one."""
        curve, spec = self.curve(scope), self.spec
        if curve is None:
            return None
        slack = max(spec.budget.tolerance, 1e-6) if self.off is None else abs(self.off - 1) + 1e-6
        return measures(
            self.spent, curve, spec.budget.amount, smallest=spec.primary.smallest, last=spec.last, slack=slack,
            shares=(0.5, 1.0, 2.0),
        )  # fmt: skip

    def value(self, metric: Metric, scope: Scope) -> float | None:
        """One number of the cell; None where it has none."""
        found = self.measures(scope)
        return None if found is None else float(getattr(found, metric))

    def at_shares(self, scope: Scope, shares: Sequence[float]) -> list[float | None]:
        """The curve at shares of the budget."""
        curve = self.curve(scope)
        if curve is None:
            return [None] * len(shares)
        return at(self.spent, curve, [share * self.spec.budget.amount for share in shares])

    def cost(self, unit: str) -> float:
        """What was spent up to the budget, in any unit."""
        own = [point["spent"][unit] for point in self.values["points"]]
        return float(np.interp(self.spec.budget.amount, self.spent, own))


def shares_of(spec: StudySpec) -> list[float]:
    """The parts of the budget at which cells are evaluated."""
    count = round(spec.test.points * spec.budget.beyond)
    return [number / spec.test.points for number in range(count + 1)]
