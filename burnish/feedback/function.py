"""A user's own reward function: called per group, timed, its answer checked, its failures missing and never 0."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from burnish.errors import RunError
from burnish.feedback.in_order import InOrder
from burnish.feedback.limited import Outcome, call_limited
from burnish.feedback.loading import Signature, load_function, tail
from burnish.feedback.reward import Missing, Score, from_written, named, written
from burnish.feedback.spec import FunctionSpec
from burnish.ledger import Quantity
from burnish.outside import Direct, Outside
from burnish.tasks import Task
from burnish.traces import Status

FAILURES_TO_STOP = 8
"""Calls in a row that may fail, after some have worked, before the run stops (or a whole batch, if that is more)."""


class FunctionReward:
    """Calls `function(completions=[...], column=[...], ...)` once per group.

    A call that raises, runs past the limit or answers with something else than one number (or None) per completion
    makes that group's scores missing. When not one call has ever worked, or all calls of a batch and the last eight
    failed, `settle` stops the run: training on would only hide the fault.
    """

    calls: Quantity | None = "reward_calls"

    def __init__(self, spec: FunctionSpec, base: Path | None = None, outside: Outside | None = None) -> None:
        self.spec = spec
        self.function: Callable[..., Any] = (
            load_function(spec.function, base) if isinstance(spec.function, str) else spec.function
        )
        self.name = spec.name or getattr(self.function, "__name__", type(self.function).__name__)
        self.label = spec.function if isinstance(spec.function, str) else f"{self.name!r}"
        self._signature = Signature(self.function, self.label)
        self._counts: Counter[str] = Counter()
        self.outside: Outside = outside or Direct()
        self._faults: InOrder[str] = InOrder()
        self._worked = False
        self._failed_in_a_row = 0
        self._last_failure = ""

    def check(self, tasks: Sequence[Task]) -> None:
        """Raises InputError when the function asks for a column that some task lacks."""
        for task in tasks:
            self._signature.select(task.id, task.columns)

    async def score(self, row: str, columns: Mapping[str, Any], completions: list[str]) -> list[Score]:
        """See `Reward.score`. Raises InputError when the function asks for a column that is not there."""
        names = self._signature.select(row, columns)
        arguments = {name: [columns[name]] * len(completions) for name in names}
        place = self._faults.begin()

        async def call() -> dict[str, Any]:
            outcome = await call_limited(
                lambda: self.function(completions=list(completions), **arguments), self.spec.time_limit
            )
            counts: Counter[str] = Counter(calls=1)
            scores, fault = self._read(outcome, named(row, columns), len(completions), counts)
            return {"scores": [written(score) for score in scores], "fault": fault, "counts": dict(counts)}

        answer = await self.outside.ask(f"reward/{self.name}", [row, arguments, completions], call)
        self._counts.update(answer["counts"])
        self._faults.end(place, answer["fault"])
        return [from_written(score) for score in answer["scores"]]

    def _read(self, outcome: Outcome, row: str, count: int, counts: Counter[str]) -> tuple[list[Score], str]:
        """Scores, and what is to be told of a call that failed as a whole (empty: it worked)."""
        at = f"reward function {self.label}, {row}"
        if outcome.expired:
            return _failed("timed_out", counts, count, f"{at}: ran past its limit of {self.spec.time_limit:g} s")
        if outcome.error is not None:
            error = outcome.error
            reason = f"{at}: raised {type(error).__name__}: {error}"
            scores, _ = _failed("raised", counts, count, reason)
            return scores, f"{reason}\n{tail(error)}"
        values = _as_list(outcome.value)
        if values is None:
            got = type(outcome.value).__name__
            return _failed(
                "invalid", counts, count, f"{at}: must return a list with one number per completion, not {got}"
            )
        if len(values) != count:
            return _failed(
                "invalid",
                counts,
                count,
                f"{at}: returned {len(values)} values for {count} completions; return one for each",
            )
        scores: list[Score] = [_checked(value, f"{at}, completion {i}", counts) for i, value in enumerate(values)]
        faults = [s.reason for s in scores if isinstance(s, Missing) and s.status is Status.VERIFIER_ERROR]
        return scores, faults[0] if faults and len(faults) == count else ""

    def settle(self) -> None:
        """Raises RunError with the function's own traceback when it does not work at all."""
        for fault in self._faults.take():
            if fault:
                self._failed_in_a_row += 1
                self._last_failure = fault
            else:
                self._worked, self._failed_in_a_row = True, 0
        if not self._failed_in_a_row or (self._worked and self._failed_in_a_row < FAILURES_TO_STOP):
            return
        calls = self._counts["calls"]
        since = f"all {calls} calls" if not self._worked else f"the last {self._failed_in_a_row} of {calls} calls"
        raise RunError(f"the reward function failed in {since}, so there is nothing to train on. {self._last_failure}")

    def counts(self) -> dict[str, int]:
        """Calls, and of them raised, timed_out, invalid (wrong length, not a finite number); `none` values."""
        return dict(self._counts)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to count on and to stop at the same call."""
        return {
            "counts": dict(sorted(self._counts.items())), "worked": self._worked,
            "failed_in_a_row": self._failed_in_a_row, "last_failure": self._last_failure,
        }  # fmt: skip

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self._counts = Counter(state["counts"])
        self._worked, self._failed_in_a_row = bool(state["worked"]), int(state["failed_in_a_row"])
        self._last_failure = str(state["last_failure"])


def _as_list(value: Any) -> list[Any] | None:
    """Lists and tuples, and arrays or tensors of one dimension."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return list(value) if isinstance(value, (list, tuple)) else None


def _failed(kind: str, counts: Counter[str], count: int, reason: str) -> tuple[list[Score], str]:
    counts[kind] += 1
    return [Missing(Status.VERIFIER_ERROR, reason, kind)] * count, reason


def _checked(value: Any, at: str, counts: Counter[str]) -> Score:
    if value is None:
        counts["none"] += 1
        return Missing(Status.VOID, f"{at}: the function returned None", "none")
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    counts["invalid"] += 1
    shown = repr(value)[:80]
    reason = f"{at}: returned {shown}; return a finite number, or None for missing"
    return Missing(Status.VERIFIER_ERROR, reason, "invalid")
