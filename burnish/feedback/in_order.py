"""What came of calls that end in any order, remembered in the order in which they began. No torch here."""

from __future__ import annotations

from typing import Generic, TypeVar

Outcome = TypeVar("Outcome")


class InOrder(Generic[Outcome]):
    """Outcomes by when their calls began: what is decided by them must not depend on which call was quicker."""

    def __init__(self) -> None:
        self._begun = 0
        self._ended: dict[int, Outcome] = {}

    def begin(self) -> int:
        """A call begins; its place."""
        self._begun += 1
        return self._begun

    def end(self, place: int, outcome: Outcome) -> None:
        """The call of that place has ended. One that is given up never does, and counts for nothing."""
        self._ended[place] = outcome

    def take(self) -> list[Outcome]:
        """The outcomes since this was last asked. Calls under way are left for the next time."""
        taken = [self._ended[place] for place in sorted(self._ended)]
        self._ended.clear()
        return taken
