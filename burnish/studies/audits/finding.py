"""What an audit says: a level, figures, the rule that set the level, and the limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from burnish.studies.statistics import Interval

Level = Literal["ok", "look", "fault"]
"""`ok`: nothing beyond the thresholds. `look`: a person should. `fault`: what was measured should not be there."""

_WORSE: tuple[Level, ...] = ("ok", "look", "fault")


class UnmeasuredError(Exception):
    """Why a run has nothing that an audit could measure."""


@dataclass(frozen=True)
class Figure:
    """A number, with its 95 % interval where it was estimated from a sample, and what it was taken over."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    over: str = ""

    @classmethod
    def of(cls, name: str, interval: Interval, over: str = "") -> Figure:
        """The figure that an interval is."""
        return cls(name, interval.estimate, interval.low, interval.high, over)

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what is not finite becomes null."""
        values = {"value": self.value, "low": self.low, "high": self.high}
        return {"name": self.name, **{k: _finite(v) for k, v in values.items()}, "over": self.over}

    def __str__(self) -> str:
        value = _number(self.value)
        if self.low is None or self.high is None:
            return f"{self.name}: {value}"
        return f"{self.name}: {value} [{_number(self.low)}, {_number(self.high)}]"


@dataclass(frozen=True)
class Finding:
    """One audit of one run. `level` is None where the run has nothing to measure; `says` is then the reason."""

    audit: str
    level: Level | None
    says: str
    rule: str = ""
    """What sets the level."""
    cannot_tell: str = ""
    figures: tuple[Figure, ...] = ()
    curves: Mapping[str, Sequence[tuple[float, float | None]]] = field(default_factory=dict)
    """Name -> (place, value): by step, by position, or by k."""

    def __getitem__(self, name: str) -> Figure:
        """The figure of that name. Raises KeyError with the names there are."""
        for figure in self.figures:
            if figure.name == name:
                return figure
        raise KeyError(f"{self.audit} has no figure {name!r}; it has: {', '.join(f.name for f in self.figures)}")

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "audit": self.audit, "level": self.level, "says": self.says, "rule": self.rule,
            "cannot_tell": self.cannot_tell, "figures": [figure.to_json() for figure in self.figures],
            "curves": {name: [[_finite(x), _finite(y)] for x, y in points] for name, points in self.curves.items()},
        }  # fmt: skip


@dataclass(frozen=True)
class AuditReport:
    """The findings of a run, in the order of the audits."""

    run: str
    findings: tuple[Finding, ...]
    read: Mapping[str, Any] = field(default_factory=dict)
    """What was read: steps with metrics, stored steps, groups, members."""

    @property
    def level(self) -> Level | None:
        """The worst level of any audit; None where none could measure anything."""
        found: list[Level] = [finding.level for finding in self.findings if finding.level is not None]
        return max(found, key=_WORSE.index) if found else None

    def __getitem__(self, name: str) -> Finding:
        """The finding of an audit. Raises KeyError when it was not asked for."""
        return {finding.audit: finding for finding in self.findings}[name]

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        findings = [finding.to_json() for finding in self.findings]
        return {"run": self.run, "level": self.level, "read": dict(self.read), "findings": findings}

    def __str__(self) -> str:
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.audit}: {finding.level or 'not measured'}: {finding.says}")
            lines += [f"    {figure}" for figure in finding.figures]
            if finding.level is not None:
                lines += [f"    rule: {finding.rule}", f"    cannot tell: {finding.cannot_tell}"]
        return "\n".join([*lines, f"{self.run}: {self.level or 'nothing measured'}"])


def graded(*, fault: bool, look: bool) -> Level:
    """The level from the two conditions of a rule."""
    return "fault" if fault else "look" if look else "ok"


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value))
    return f"{value:.3f}" if 1e-2 <= abs(value) < 1e5 else f"{value:.2e}"
