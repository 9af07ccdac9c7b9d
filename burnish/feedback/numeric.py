"""Verifiers of numeric answers: is the number right, and is the answer nothing but a number."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from burnish.errors import InputError
from burnish.feedback.numbers import last_number, only_number
from burnish.feedback.reward import Judged, Score, named
from burnish.feedback.spec import FormatSpec, NumericSpec
from burnish.feedback.verifiers.keyed import Keyed
from burnish.tasks.suggest import did_you_mean


class NumericReward(Keyed):
    """1.0 when the completion's number equals the answer's, else 0.0; a completion without a number is wrong."""

    def __init__(self, spec: NumericSpec) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec = spec

    def _key(self, row: str, columns: Mapping[str, Any]) -> tuple[Fraction, bool]:
        """The right number, and whether 3/4 is one number: a right answer so written asks for answers so written."""
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
        return number, self.spec.fractions or only_number(text) is None

    def _score(self, answer: Fraction, fractions: bool, completion: str) -> Score:
        read = only_number if self.spec.mode == "exact" else last_number
        found = read(completion, fractions=fractions)
        if found is None:
            return Judged(0.0, "no_answer", "no number is found")
        return 1.0 if abs(found - answer) <= Fraction(self.spec.tolerance) else Judged(0.0, "wrong")

    async def _scores(self, row: str, key: tuple[Fraction, bool], texts: list[str]) -> list[Score]:
        return [self._score(*key, text) for text in texts]


class FormatReward(Keyed):
    """1.0 when the completion is a number and nothing else, else 0.0."""

    def __init__(self, spec: FormatSpec) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec = spec

    def _key(self, row: str, columns: Mapping[str, Any]) -> None:
        """Nothing is needed of a task."""

    async def _scores(self, row: str, key: None, texts: list[str]) -> list[Score]:
        return [self._score(text) for text in texts]

    def _score(self, text: str) -> Score:
        is_number = only_number(text, fractions=self.spec.fractions) is not None
        return 1.0 if is_number else Judged(0.0, "wrong", "not a number and nothing else")
