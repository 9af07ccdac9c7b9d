"""Answers of known standing to one prompt: which is better than which, or whether one is good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
"""A chat message as templates take it: role, content, and for tools also tool_calls, tool_call_id, name."""
Shown = tuple[Message, ...] | str
"""What was written after a prompt: messages after messages, text after text."""


@dataclass(frozen=True)
class Comparison:
    """Answer `better` is preferred to answer `worse`; for a tie the order has no meaning.

    `margin` is by how much, in whatever unit the data has; None where it does not say.
    """

    better: int
    worse: int
    margin: float | None = None
    tie: bool = False


@dataclass(frozen=True)
class Preference:
    """Two or more answers, the best first, and what is known of each pair.

    Raises ValueError when there are fewer than two answers, when a comparison names one that is not there, and when
    none of the comparisons says that one is better.
    """

    answers: tuple[Shown, ...]
    comparisons: tuple[Comparison, ...]

    def __post_init__(self) -> None:
        if len(self.answers) < 2:
            raise ValueError("a preference needs two answers or more")
        for pair in self.comparisons:
            if pair.better == pair.worse or not all(0 <= i < len(self.answers) for i in (pair.better, pair.worse)):
                raise ValueError(f"comparison {pair.better} > {pair.worse} does not name two of the answers")
        if all(pair.tie for pair in self.comparisons):
            raise ValueError("a preference needs one answer that is better than another")

    @property
    def chosen(self) -> Shown:
        """The best answer."""
        return self.answers[0]

    @property
    def rejected(self) -> Shown:
        """The worst answer."""
        return self.answers[-1]

    @property
    def margin(self) -> float | None:
        """By how much the best is better than the worst, where the data says."""
        last = len(self.answers) - 1
        return next((c.margin for c in self.comparisons if (c.better, c.worse) == (0, last) and not c.tie), None)


@dataclass(frozen=True)
class Judged:
    """One answer, and whether it is good."""

    answer: Shown
    good: bool


def ranked(answers: Sequence[Shown], worth: Sequence[float], *, margins: bool) -> Preference:
    """A preference among answers by what each is worth (more is better); equal ones tie.

    With `margins` the difference is each pair's margin. Raises ValueError when all are worth the same.
    """
    order = sorted(range(len(answers)), key=lambda i: -worth[i])
    pairs = [
        Comparison(
            place,
            other,
            worth[order[place]] - worth[order[other]] if margins else None,
            tie=worth[order[place]] == worth[order[other]],
        )
        for place in range(len(order))
        for other in range(place + 1, len(order))
    ]
    return Preference(tuple(answers[i] for i in order), tuple(pairs))
