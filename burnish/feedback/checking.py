"""Right or wrong: one verifier as the judge of held-out answers. No torch here."""

from __future__ import annotations

from pathlib import Path

from burnish.feedback.build import build
from burnish.feedback.judge import Feedback
from burnish.feedback.numbers import only_number
from burnish.feedback.reward import UNREAD
from burnish.feedback.spec import CheckSpec, FeedbackSpec, FormatSpec, NumericSpec
from burnish.ledger import Ledger
from burnish.outside import Outside
from burnish.traces import Verdict


class Check:
    """Judges answers by one verifier: right when worth 1, wrong when worth less, missing when it has no reward."""

    def __init__(
        self, spec: CheckSpec, base: Path | None = None, *, ledger: Ledger | None = None, outside: Outside | None = None
    ) -> None:
        self.spec = spec
        self.feedback: Feedback = build(FeedbackSpec(rewards=(spec,)), base, ledger=ledger, outside=outside)

    @property
    def graded(self) -> bool:
        """Whether an answer can be worth something between wrong and right, so that the worth says more."""
        return not isinstance(self.spec, (NumericSpec, FormatSpec))

    @staticmethod
    def correct(verdict: Verdict) -> bool | None:
        """Whether the answer is right; None where there is no reward."""
        return None if verdict.reward is None else verdict.reward >= 1.0

    def well_formed(self, verdict: Verdict, answer: str) -> bool | None:
        """Whether the answer has the form that was asked for, right or wrong.

        For numbers that is a number and nothing else; for other kinds, that the verifier found an answer it could read
        (`UNREAD` names when it did not). None where there is no reward, and for a user's function, which says nothing
        of forms.
        """
        if isinstance(self.spec, (NumericSpec, FormatSpec)):  # written out, so that a type checker sees `fractions`
            return only_number(answer, fractions=self.spec.fractions) is not None
        if verdict.reward is None or self.spec.kind == "function":
            return None
        return not UNREAD & set(verdict.evidence.get("kinds", {}).values())
