"""Is the puzzle of reasoning-gym solved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.reward import named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import column_of
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.spec import ReasoningGymSpec


class ReasoningGymReward(Pooled):
    """The library's score of the answer, 0 to 1."""

    check_name = "burnish.feedback.checks.gym:check"
    library = "reasoning_gym"
    spec: ReasoningGymSpec

    def _key(self, row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        entry = parsed(column_of(row, columns, self.spec.column, "reasoning_gym", "a puzzle"))
        metadata = entry.get("metadata") if isinstance(entry, dict) else None
        whole = isinstance(entry, dict) and isinstance(metadata, dict) and {"question", "answer"} <= entry.keys()
        if not whole or not isinstance(metadata, dict) or not isinstance(metadata.get("source_dataset"), str):
            raise InputError(
                f"{named(row, columns)}: column {self.spec.column!r} must hold a puzzle as reasoning-gym makes it "
                "(question, answer, and metadata with source_dataset); mend the row, or name another column"
            )
        return entry

    def _argument(self, key: dict[str, Any], text: str) -> dict[str, Any]:
        spec = self.spec
        return {
            "entry": key, "text": text, "read": spec.read, "thoughts": spec.thoughts_end, "partial": spec.partial
        }  # fmt: skip
