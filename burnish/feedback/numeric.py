"""Verifiers of numeric answers: is the number right, and is the answer nothing but a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from burnish.errors import InputError
from burnish.feedback.numbers import last_number, only_number
from burnish.feedback.reward import Score, named
from burnish.feedback.spec import FormatSpec, NumericSpec
from burnish.ledger import Quantity
from burnish.tasks import Task
from burnish.tasks.suggest import did_you_mean


class NumericReward:
    """1.0 when the completion's number equals the answer's, else 0.0; a completion without a number is wrong."""

    calls: Quantity | None = None

    def __init__(self, spec: NumericSpec) -> None:
        self.spec = spec
        self.name = spec.name or spec.kind

    def check(self, tasks: Sequence[Task]) -> None:
        """Raises InputError when a task has no answer column or no number in it."""
        for task in tasks:
            self._answer(task.id, task.columns)

    def _answer(self, row: str, columns: Mapping[str, Any]) -> Fraction:
        column = self.spec.column
        if column not in columns:
            raise InputError(
                f"{named(row, columns)}: the numeric reward compares with column {column!r}, which is not there; "
                f"{did_you_mean(column, columns)} Set `column` of the reward"
            )
        value = columns[column]
        text = str(value).rpartition("####")[2]  # GSM8K writes the reasoning, then "#### 72"
        number = None if isinstance(value, bool) else only_number(text, fractions=True)
        if number is None:
            raise InputError(
                f"{named(row, columns)}: the numeric reward needs a number in column {column!r}, not "
                f"{str(value)[:80]!r}; mend the row, name another column, or write a reward function"
            )
        return number

    def correct(self, columns: Mapping[str, Any], completion: str, row: str = "?") -> bool:
        """Whether one completion is right. Raises InputError when the row has no number to compare with."""
        answer = self._answer(row, columns)
        read = only_number if self.spec.mode == "exact" else last_number
        found = read(completion, fractions=self.spec.fractions)
        return found is not None and abs(found - answer) <= Fraction(self.spec.tolerance)

    async def score(self, row: str, columns: Mapping[str, Any], completions: list[str]) -> list[Score]:
        """See `Reward.score`."""
        return [float(self.correct(columns, completion, row)) for completion in completions]

    def settle(self) -> None:
        """Nothing can go wrong that is not the data's fault."""

    def counts(self) -> dict[str, int]:
        """See `Reward.counts`."""
        return {}

    def state(self) -> dict[str, Any]:
        """There is none."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """There is none."""


class FormatReward:
    """1.0 when the completion is a number and nothing else, else 0.0."""

    calls: Quantity | None = None

    def __init__(self, spec: FormatSpec) -> None:
        self.spec = spec
        self.name = spec.name or spec.kind

    def check(self, tasks: Sequence[Task]) -> None:
        """Nothing is needed of a task."""

    async def score(self, row: str, columns: Mapping[str, Any], completions: list[str]) -> list[Score]:
        """See `Reward.score`."""
        return [float(only_number(text, fractions=self.spec.fractions) is not None) for text in completions]

    def settle(self) -> None:
        """Nothing can go wrong."""

    def counts(self) -> dict[str, int]:
        """See `Reward.counts`."""
        return {}

    def state(self) -> dict[str, Any]:
        """There is none."""
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        """There is none."""
