"""What a check comes to: a value with the name of what went wrong, or no judgement at all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Found:
    """A value that the candidate's answer earned; `kind` names why it is not the full one (docs/verifiers.md)."""

    value: float
    kind: str = ""
    reason: str = ""


class Unjudged(Exception):  # noqa: N818 - nothing need be wrong with the program
    """The task or the machinery is at fault: there is no value (promise E8). `kind` names the fault."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
