"""Is the answer mathematically equal to the right one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.reward import named
from burnish.feedback.verifiers.keyed import column_of
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.spec import MathSpec


class MathReward(Pooled):
    """1.0 when math-verify finds the answers equal, else 0.0."""

    check_name = "burnish.feedback.checks.mathematics:check"
    library = "math_verify"
    spec: MathSpec

    def _key(self, row: str, columns: Mapping[str, Any]) -> str:
        value = column_of(row, columns, self.spec.column, "math", "the right answer")
        if isinstance(value, (bool, list, dict)) or not str(value).strip():
            raise InputError(
                f"{named(row, columns)}: the math reward needs an expression in column {self.spec.column!r}, not "
                f"{str(value)[:80]!r}; mend the row, or name another column"
            )
        return str(value)

    def _argument(self, key: str, text: str) -> dict[str, Any]:
        spec = self.spec
        return {"key": key, "text": text, "read": spec.read, "repair": spec.repair, "thoughts": spec.thoughts_end}
