"""What a run asked for and got, counted per step."""

from __future__ import annotations

from collections import Counter


class Meter:
    """Named counts since the last reading: prompts, samples, sampled tokens, judged members, missing rewards."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Count something."""
        self._counts[name] += amount
        self.totals[name] += amount

    def read(self) -> dict[str, int]:
        """The counts since the last reading."""
        counts = dict(self._counts)
        self._counts.clear()
        return counts
