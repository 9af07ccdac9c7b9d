"""Verdicts: what was judged of a trace or a span, with the reason when there is nothing to train on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Status(StrEnum):
    """How an attempt ended. The last three are the machinery's fault: they carry no reward and leave the statistics."""

    OK = "ok"
    TASK_FAIL = "task_fail"
    TIME_LIMIT = "time_limit"
    AGENT_ERROR = "agent_error"
    INFRA_ERROR = "infra_error"
    VERIFIER_ERROR = "verifier_error"
    VOID = "void"

    @property
    def counts(self) -> bool:
        """Whether an attempt with this status may carry a reward."""
        return self not in (Status.INFRA_ERROR, Status.VERIFIER_ERROR, Status.VOID)


@dataclass(frozen=True)
class Verdict:
    """A reward, or the reason why there is none (promise E8: missing is never 0).

    Raises ValueError when a reward is not finite, when a machinery failure carries a reward, or when a reward is
    absent without a reason.
    """

    reward: float | None
    status: Status = Status.OK
    reason: str = ""
    components: dict[str, float] = field(default_factory=dict)
    evidence: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.reward is None:
            if not self.reason:
                raise ValueError("a missing reward needs a reason")
            return
        if not math.isfinite(self.reward):
            raise ValueError(f"a reward must be finite, not {self.reward}")
        if not self.status.counts:
            raise ValueError(f"status {self.status} carries no reward: leave it missing and give the reason")

    @classmethod
    def missing(cls, status: Status, reason: str, **evidence: Any) -> Verdict:
        """A verdict without a reward."""
        return cls(reward=None, status=status, reason=reason, evidence=evidence)
