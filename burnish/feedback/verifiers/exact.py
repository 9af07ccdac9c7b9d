"""Is the answer the expected text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.texts import normalised
from burnish.feedback.reward import Judged, Score, named
from burnish.feedback.verifiers.keyed import Keyed, column_of
from burnish.feedback.verifiers.spec import ExactSpec


class ExactReward(Keyed):
    """1.0 when the answer equals one of the right texts after the named normalisations, else 0.0."""

    def __init__(self, spec: ExactSpec) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec = spec

    def _key(self, row: str, columns: Mapping[str, Any]) -> list[str]:
        value = column_of(row, columns, self.spec.column, "exact", "the right text")
        texts = value if isinstance(value, list) else [value]
        if not texts or any(isinstance(t, (bool, dict, list)) or t is None for t in texts):
            raise InputError(
                f"{named(row, columns)}: the exact reward compares with texts or numbers, and column "
                f"{self.spec.column!r} holds {str(value)[:80]!r}; mend the row, or name another column"
            )
        right = [normalised(str(text), self.spec.normalise) for text in texts]
        if not all(right):
            raise InputError(
                f"{named(row, columns)}: the right text in column {self.spec.column!r} is empty after normalise "
                f"[{', '.join(self.spec.normalise)}]; take one of them away"
            )
        return right

    async def _scores(self, row: str, key: list[str], texts: list[str]) -> list[Score]:
        return [self._score(key, text) for text in texts]

    def _score(self, key: list[str], text: str) -> Score:
        found = read(after_thoughts(text, self.spec.thoughts_end), self.spec.read)
        if found is None:
            return Judged(0.0, "no_answer", f"no answer is found by the rule {self.spec.read!r}")
        return 1.0 if normalised(found, self.spec.normalise) in key else Judged(0.0, "wrong")
