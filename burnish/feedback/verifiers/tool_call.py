"""Are the right tools called with the right arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.tools import sound_row
from burnish.feedback.reward import named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import column_of, sound_or_refused
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.spec import ToolCallSpec


class ToolCallReward(Pooled):
    """1.0 when the calls are the expected ones, else 0.0 or partial credit; 0.0 whenever one cannot be made."""

    check_name = "burnish.feedback.checks.tools:check"
    library = "jsonschema"
    spec: ToolCallSpec

    def _key(self, row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        calls = parsed(column_of(row, columns, self.spec.column, "tool_call", "the expected calls"))
        tools = None
        if self.spec.tools is not None:
            tools = parsed(column_of(row, columns, self.spec.tools, "tool_call", "the descriptions of the tools"))
        for column, value in ((self.spec.column, calls), (self.spec.tools, tools)):
            if value is not None and not (isinstance(value, list) and all(map(_names_a_tool, value))):
                raise InputError(
                    f"{named(row, columns)}: column {column!r} must hold a list of objects that have a name, not "
                    f"{str(value)[:80]!r}; mend the row, or name another column"
                )
        with sound_or_refused(row, columns):
            sound_row(calls, tools, partly=self.spec.alternatives or self.spec.extra_arguments)
        return {"key": calls, "tools": tools}

    def _argument(self, key: dict[str, Any], text: str) -> dict[str, Any]:
        spec = self.spec
        return {
            **key, "text": text, "thoughts": spec.thoughts_end, "credit": spec.credit, "name_share": spec.name_share,
            "argument_share": spec.argument_share, "extra_arguments": spec.extra_arguments,
            "alternatives": spec.alternatives,
        }  # fmt: skip


def _names_a_tool(value: Any) -> bool:
    inner = value.get("function", value) if isinstance(value, dict) else None
    return isinstance(inner, dict) and isinstance(inner.get("name"), str)
