"""Does the answer name the right option."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.reward import named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import column_of
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.spec import ChoiceSpec


class ChoiceReward(Pooled):
    """1.0 when the option that is named is the right one, else 0.0."""

    check_name = "burnish.feedback.checks.choices:check"
    spec: ChoiceSpec

    def _key(self, row: str, columns: Mapping[str, Any]) -> dict[str, Any]:
        labels, texts = self._options(row, columns)
        answer = column_of(row, columns, self.spec.column, "choice", "the right option")
        right = _label_of(answer, labels, texts)
        if right is None:
            what = "; they are: " + ", ".join(labels) if texts else ""
            raise InputError(
                f"{named(row, columns)}: column {self.spec.column!r} holds {str(answer)[:80]!r}, which is none of the "
                f"options{what}; mend the row, or set `column` and `options`"
            )
        return {"key": right, "labels": labels, "options": texts}

    def _options(self, row: str, columns: Mapping[str, Any]) -> tuple[list[str], list[str]]:
        """Labels and texts: of a list, of label: text, or of {"label": [...], "text": [...]} as ARC has it."""
        if self.spec.options is None:
            return list(string.ascii_uppercase), []
        value = parsed(column_of(row, columns, self.spec.options, "choice", "the options"))
        labels: list[Any] = list(string.ascii_uppercase)
        texts: list[Any] = []
        if isinstance(value, dict) and set(value) == {"label", "text"} and isinstance(value["text"], list):
            labels, texts = value["label"], value["text"]
        elif isinstance(value, dict):
            labels, texts = list(value), list(value.values())
        elif isinstance(value, list):
            labels, texts = labels[: len(value)], value
        if not 2 <= len(texts) == len(labels) or any(isinstance(t, (dict, list)) for t in (*labels, *texts)):
            raise InputError(
                f"{named(row, columns)}: column {self.spec.options!r} must hold 2 to 26 options, a list or "
                f"label: text, not {str(value)[:80]!r}; mend the row"
            )
        return [str(label) for label in labels], [str(text) for text in texts]

    def _argument(self, key: dict[str, Any], text: str) -> dict[str, Any]:
        spec = self.spec
        return {
            **key, "text": text, "thoughts": spec.thoughts_end, "rule": spec.rule, "pattern": spec.pattern,
            "option_text": spec.option_text,
        }  # fmt: skip


def _label_of(answer: Any, labels: list[str], texts: list[str]) -> str | None:
    """The right label, from a label, a place counted from 0 (as MMLU has it), or an option's text."""
    if isinstance(answer, bool):
        return None
    if isinstance(answer, int) and str(answer) not in labels:
        return labels[answer] if 0 <= answer < len(texts or labels) else None
    folded = {label.casefold(): label for label in labels}
    if (label := folded.get(str(answer).strip().casefold())) is not None:
        return label
    return labels[texts.index(str(answer))] if texts.count(str(answer)) == 1 else None
