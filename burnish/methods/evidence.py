"""What was measured of a method, as data that travels with the package.

Every study or benchmark commits an `evidence.json` beside its results (docs/choosing.md has the shape); `python -m
benchmarks.evidence` gathers them into burnish/methods/evidence.json, which this file reads. No torch here.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Outcome = Literal["shown", "not shown", "opposite", "untested"]

PACKAGED = Path(__file__).with_name("evidence.json")
"""The evidence of every study, gathered."""

START = "start"
"""The control of a comparison of a model with itself before training."""


class Cost(BaseModel):
    """What one run of the evidence took, averaged over its seeds; the held-out evaluations are left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: int = Field(ge=1)
    counts: dict[str, dict[str, float]]
    """Role -> quantity of the ledger -> count of the whole run; seconds are `seconds`."""
    machine: str
    """Processor and threads."""

    @property
    def flops(self) -> float:
        """Floating point operations of every role."""
        return sum(counts.get("flops", 0.0) for counts in self.counts.values())

    @property
    def seconds(self) -> float | None:
        """Wall time of the steps; None where it was not noted."""
        return self.counts.get("run", {}).get("seconds")


class Evidence(BaseModel):
    """One comparison: what changed, by how much, over how many paired seeds, and what follows."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: str
    """Folder under benchmarks/results."""
    method: str
    row: str | None = None
    claim: str
    """The sentence that was put to the test."""
    metric: str
    """What the effect is a difference of; higher is better."""
    control: str
    """START, or what the method was compared with under the same budget."""
    model: str
    parameters: int | None = Field(default=None, ge=1)
    task: str
    verdict: Outcome
    effect: float | None = None
    """Mean difference from the control."""
    interval: tuple[float, float] | None = None
    """95 % interval of the effect."""
    over: Literal["seeds", "items"] = "seeds"
    """What the interval is over; over the items of one run it says nothing of other runs."""
    seeds: int = Field(default=0, ge=0)
    reason: str | None = None
    """Why it is untested, or what else a reader must know."""
    command: str
    """What measures it again."""
    cost: Cost | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Evidence:
        if self.verdict == "untested" and not self.reason:
            raise ValueError("an untested claim needs its reason")
        if (self.effect is None) != (self.interval is None):
            raise ValueError("an effect comes with its interval")
        if self.verdict != "untested":
            if self.interval is None:
                raise ValueError(f"verdict {self.verdict!r} needs an effect with its interval")
            low, high = self.interval
            sign = {"shown": high >= low > 0, "opposite": low <= high < 0, "not shown": True}
            if self.over != "seeds" or self.seeds < 2 or not sign[self.verdict]:
                raise ValueError(
                    f"verdict {self.verdict!r} does not follow from {[low, high]} over {self.seeds} {self.over}"
                )
        return self

    def short(self) -> dict[str, Any]:
        """The five things a list of methods tells."""
        return {
            "verdict": self.verdict, "effect": self.effect, "interval": self.interval and list(self.interval),
            "seeds": self.seeds, "study": self.study,
        }  # fmt: skip

    def line(self) -> str:
        """In words, with what it was compared with.

        >>> Evidence(study="demo", method="grpo", claim="c", metric="accuracy", control="start", model="m", task="t",
        ...          verdict="shown", effect=0.4, interval=(0.3, 0.5), seeds=5, command="x").line()
        'shown: accuracy +0.400 [+0.300, +0.500] against its start, 5 seeds; t, m (demo)'
        """
        against = "its start" if self.control == START else self.control
        told = f" {self.effect:+.3f} [{self.interval[0]:+.3f}, {self.interval[1]:+.3f}]" if self.interval else ""
        count = f"{self.seeds} seed{'s' * (self.seeds != 1)}" + (", over items" if self.over == "items" else "")
        why = f"; {self.reason}" if self.reason else ""
        where = f"{self.task}, {self.model} ({self.study})"
        # effect None has interval None, which the validator holds
        return f"{self.verdict}: {self.metric}{told} against {against}, {count}; {where}{why}"


UNTESTED: dict[str, Any] = {"verdict": "untested", "effect": None, "interval": None, "seeds": 0, "study": None}
"""What a list of methods tells of one that nothing was measured of."""


def read_evidence(path: Path) -> list[Evidence]:
    """The evidence of a file. Raises OSError, or ValueError for something else."""
    return [Evidence.model_validate(entry) for entry in json.loads(path.read_text("utf-8"))["entries"]]


@cache
def all_evidence() -> tuple[Evidence, ...]:
    """Everything that was measured, from the package's own copy."""
    return tuple(read_evidence(PACKAGED))


def evidence_of(method: str) -> list[Evidence]:
    """What was measured of a method, the strongest design first.

    A comparison with another method under one budget comes before one with the model's own start, then more seeds
    before fewer, then by the study's name: the order knows nothing of how the results came out.
    """
    found = [entry for entry in all_evidence() if entry.method == method]
    return sorted(found, key=lambda e: (e.control == START, -e.seeds, e.study, e.task))
