"""Does an expression of the given numbers reach the target."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.expressions import LONGEST_NUMBER, MOST_NUMBERS, Unsound, computed
from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.reward import Judged, Score, named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import Keyed, column_of
from burnish.feedback.verifiers.spec import ExpressionSpec


class ExpressionReward(Keyed):
    """1.0 when the expression uses the numbers as it should and equals the target; else `form_share` or 0.0."""

    def __init__(self, spec: ExpressionSpec) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec = spec

    def _key(self, row: str, columns: Mapping[str, Any]) -> tuple[list[int], int]:
        numbers = parsed(column_of(row, columns, self.spec.numbers, "expression", "the numbers"))
        target = parsed(column_of(row, columns, self.spec.column, "expression", "the target"))
        whole = isinstance(numbers, list) and 0 < len(numbers) <= MOST_NUMBERS and all(map(_is_number, numbers))
        if not whole or not (_is_number(target) or (isinstance(target, int) and _is_number(-target))):
            raise InputError(
                f"{named(row, columns)}: the expression reward needs a whole number in column {self.spec.column!r} and "
                f"1 to {MOST_NUMBERS} whole numbers from 0 on in column {self.spec.numbers!r}, of at most "
                f"{LONGEST_NUMBER} digits, not {str(target)[:40]!r} and {str(numbers)[:40]!r}; mend the row, or name "
                "other columns"
            )
        return numbers, target

    async def _scores(self, row: str, key: tuple[list[int], int], texts: list[str]) -> list[Score]:
        return [self._score(*key, text) for text in texts]

    def _score(self, numbers: list[int], target: int, text: str) -> Score:
        found = read(after_thoughts(text, self.spec.thoughts_end), self.spec.read)
        if found is None:
            return Judged(0.0, "no_answer", f"no answer is found by the rule {self.spec.read!r}")
        try:
            value = computed(found, numbers, every=self.spec.every)
        except Unsound as fault:
            return Judged(0.0, fault.kind, fault.reason)
        if value == target:
            return 1.0
        return Judged(self.spec.form_share, "wrong", f"the expression comes to {_short(value)}, not {target}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**LONGEST_NUMBER


def _short(value: Fraction) -> str:
    return str(value) if max(abs(value.numerator), value.denominator) < 10**30 else "a very large number"
