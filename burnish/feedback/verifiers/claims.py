"""How many of the claims of an answer are right, and which is the first that is not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burnish.errors import InputError
from burnish.feedback.checks.claims import Claims, judged, plain
from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.reward import Judged, Score, named
from burnish.feedback.verifiers.json_schema import parsed
from burnish.feedback.verifiers.keyed import Keyed, column_of
from burnish.feedback.verifiers.spec import ClaimsSpec


class ClaimsReward(Keyed):
    """A line of the answer is a claim; `credit` says what of them counts (`ClaimsSpec`)."""

    def __init__(self, spec: ClaimsSpec) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec = spec

    def _key(self, row: str, columns: Mapping[str, Any]) -> list[list[str]]:
        value = parsed(column_of(row, columns, self.spec.column, "claims", "the right claims"))
        ways = [item if isinstance(item, list) else [item] for item in value] if isinstance(value, list) else []
        if not ways or not all(w and all(isinstance(t, str) and plain(t) and "\n" not in t for t in w) for w in ways):
            raise InputError(
                f"{named(row, columns)}: the claims reward needs a list in column {self.spec.column!r}, for each claim "
                f"a line of text or a list of such lines, not {str(value)[:80]!r}; mend the row, or name another column"
            )
        return ways

    async def _scores(self, row: str, key: list[list[str]], texts: list[str]) -> list[Score]:
        return [self._score(key, text) for text in texts]

    def _score(self, key: list[list[str]], text: str) -> Score:
        found = read(after_thoughts(text, self.spec.thoughts_end), self.spec.read)
        if found is None:
            return Judged(0.0, "no_answer", f"no answer is found by the rule {self.spec.read!r}")
        claims = judged(found, key)
        if claims.first_wrong is None:
            return 1.0
        kind, reason = _first_wrong(claims, claims.first_wrong)
        details = {
            "first_wrong": claims.first_wrong, "right": claims.right, "made": claims.made, "expected": claims.expected,
            "final": claims.final,
        }  # fmt: skip
        return Judged(self._worth(claims, claims.first_wrong), kind, reason, details=details)

    def _worth(self, claims: Claims, first_wrong: int) -> float:
        longer = max(claims.made, claims.expected)
        match self.spec.credit:
            case "final":
                return float(claims.final)
            case "all":
                return 0.0
            case "fraction":
                return claims.right / longer
            case "until_wrong":
                return first_wrong / longer


def _first_wrong(claims: Claims, place: int) -> tuple[str, str]:
    if place >= claims.expected:
        extra = claims.made - claims.expected
        return "claims_extra", f"all {claims.expected} claims are right, and {extra} more follow"
    if place >= claims.made:
        return "claims_missing", f"{claims.made} of {claims.expected} claims are made, and right"
    return "claim_wrong", f"claim {place + 1} of {claims.expected} is wrong: {claims.text!r}"
