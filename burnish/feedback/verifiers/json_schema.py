"""Is the answer JSON of the right form, and does it hold the right values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.schemas import sound_row
from burnish.feedback.reward import named
from burnish.feedback.verifiers.keyed import column_of, sound_or_refused
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.spec import JsonSchemaSpec


class JsonSchemaReward(Pooled):
    """1.0 for JSON that satisfies the schema, else 0.0; with a key, valid_share + (1 - valid_share) x right fields."""

    check_name = "burnish.feedback.checks.schemas:check"
    library = "jsonschema"
    spec: JsonSchemaSpec

    def _key(self, row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        value = column_of(row, columns, self.spec.column, "json_schema", "a JSON Schema")
        schema = parsed(value)
        if not isinstance(schema, (dict, bool)):
            raise InputError(
                f"{named(row, columns)}: the json_schema reward needs a JSON Schema in column {self.spec.column!r}, an "
                f"object or the JSON text of one, not {str(value)[:80]!r}; mend the row, or name another column"
            )
        key = []
        if self.spec.key is not None:
            key = [column_of(row, columns, self.spec.key, "json_schema", "the expected value")]
        with sound_or_refused(row, columns):
            sound_row(schema, key, strict=self.spec.strict)
        return {"schema": schema, "key": key}

    def _argument(self, key: dict[str, Any], text: str) -> dict[str, Any]:
        return {
            **key, "text": text, "read": self.spec.read, "thoughts": self.spec.thoughts_end,
            "strict": self.spec.strict, "valid_share": self.spec.valid_share,
        }  # fmt: skip


def parsed(value: Any) -> Any:
    """A value that may be written as JSON text; a text that is no JSON stays what it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
