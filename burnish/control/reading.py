"""What guards read: the numbers of one step, and of the steps in a row that show a sign."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Reading:
    """The numbers of a step's record that guards read; None where one was not measured or is not finite."""

    step: int
    reward: float | None
    reward_missing: float | None
    reward_min: float | None
    reward_max: float | None
    rewards_kept: float | None
    zero_variance_groups: float | None
    truncated: float | None
    discarded: float | None
    masked: float | None
    length: float | None
    sampled_nll: float | None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Reading:
        """From a step's record."""
        values = {name: number(record.get(name)) for name in cls.__dataclass_fields__ if name != "step"}
        return cls(step=int(record["step"]), **values)

    @property
    def entropy(self) -> float | None:
        """Mean nats of a whole sample: the mean over samples of the summed negative log-probabilities."""
        return None if self.sampled_nll is None or self.length is None else self.sampled_nll * self.length


@dataclass
class Streak:
    """Steps in a row that show a sign: since which step, how many, and what was measured in them."""

    since: int = 0
    steps: int = 0
    samples: float = 0.0
    """Rewards that trained, summed over the steps."""
    total: float = 0.0
    """The guard's own measure, summed over the steps."""
    low: float | None = None
    high: float | None = None
    """Range of the rewards."""

    def add(self, reading: Reading, measure: float) -> None:
        """One more step."""
        self.since = self.since or reading.step
        self.steps += 1
        self.samples += reading.rewards_kept or 0.0
        self.total += measure
        self.low, self.high = widened(self.low, self.high, reading)

    @property
    def mean(self) -> float:
        """The guard's measure, averaged over the steps."""
        return self.total / max(1, self.steps)


def number(value: Any) -> float | None:
    """A finite number, or None: metrics say NaN, and JSON null, for what is absent."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def widened(low: float | None, high: float | None, r: Reading) -> tuple[float | None, float | None]:
    """A range of rewards with those of one more step in it."""
    if r.reward_min is None or r.reward_max is None:
        return low, high
    return (
        r.reward_min if low is None else min(low, r.reward_min),
        r.reward_max if high is None else max(high, r.reward_max),
    )
