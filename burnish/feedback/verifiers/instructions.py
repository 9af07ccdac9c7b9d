"""Are the instructions followed that the row names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.constraints import refusal
from burnish.feedback.checks.instructions import present
from burnish.feedback.reward import named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import column_of
from burnish.feedback.verifiers.pooled import Pooled, need
from burnish.feedback.verifiers.spec import InstructionsSpec
from burnish.tasks import Task


class InstructionsReward(Pooled):
    """The share of instructions that are followed, or 1.0 for all and 0.0 else."""

    check_name = "burnish.feedback.checks.instructions:check"
    spec: InstructionsSpec

    def check(self, tasks: Sequence[Task]) -> None:
        """As for any; langdetect must be installed when a task asks for a language."""
        for task in tasks:
            if "language:response_language" in self._key(task.id, task.columns)["ids"]:
                need("langdetect", f"{named(task.id, task.columns)}: language:response_language")

    def _key(self, row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        ids = parsed(column_of(row, columns, self.spec.column, "instructions", "ids of instructions"))
        arguments = parsed(column_of(row, columns, self.spec.arguments, "instructions", "their arguments"))
        wrong = ""
        if not (isinstance(ids, list) and ids and all(isinstance(id, str) for id in ids)):
            wrong = f"column {self.spec.column!r} must hold a list of ids, not {str(ids)[:80]!r}"
        elif not (isinstance(arguments, list) and all(a is None or isinstance(a, dict) for a in arguments)):
            wrong = f"column {self.spec.arguments!r} must hold a list of objects, not {str(arguments)[:80]!r}"
        elif len(ids) != len(arguments):
            wrong = f"{len(ids)} instructions and {len(arguments)} objects of arguments"
        else:
            refused = (refusal(id, present(given)) for id, given in zip(ids, arguments, strict=True))
            wrong = next(filter(None, refused), "")
        if wrong:
            raise InputError(f"{named(row, columns)}: {wrong}; mend the row")
        return {"ids": ids, "arguments": [present(given) for given in arguments]}

    def _argument(self, key: dict[str, Any], text: str) -> dict[str, Any]:
        spec = self.spec
        return {**key, "text": text, "thoughts": spec.thoughts_end, "loose": spec.loose, "credit": spec.credit}
