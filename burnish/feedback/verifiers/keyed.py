"""What the built-in verifiers have in common: the right answer in a column of the row, faults counted by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from burnish.errors import InputError, RunError
from burnish.feedback.checks.final import LONGEST
from burnish.feedback.checks.outcome import Unjudged
from burnish.feedback.in_order import InOrder
from burnish.feedback.reward import Judged, Missing, Score, named
from burnish.ledger import Quantity
from burnish.tasks import Task
from burnish.tasks.suggest import did_you_mean
from burnish.traces import Status

FAILURES_TO_STOP = 8
"""Groups in a row of which nothing could be judged, before the run stops."""


def column_of(row: str, columns: Mapping[str, Any], column: str, kind: str, what: str) -> Any:
    """The value of a column. Raises InputError, with the fix, when it is not there or null."""
    if columns.get(column) is None:
        state = "is null" if column in columns else f"is not there; {did_you_mean(column, columns)}"
        raise InputError(
            f"{named(row, columns)}: the {kind} reward needs {what} in column {column!r}, which {state} "
            "Set `column` of the reward, or mend the row"
        )
    return columns[column]


class BadKeyError(InputError):
    """A row has something to compare with that nothing could satisfy, or that cannot be read."""


@contextmanager
def sound_or_refused(row: str, columns: Mapping[str, Any]) -> Iterator[None]:
    """Raises BadKeyError, naming the row, for what a check cannot judge by."""
    try:
        yield
    except Unjudged as fault:
        raise BadKeyError(f"{named(row, columns)}: {fault.reason}; mend the row") from None


_WORKED = "worked"


class Keyed(ABC):
    """Base of the built-in verifiers. A subclass has `_key`, and scores the texts that are left to it."""

    calls: Quantity | None = None
    name: str

    def __init__(self, name: str) -> None:
        self.name = name
        self._counts: Counter[str] = Counter()
        self._outcomes: InOrder[str] = InOrder()
        self._missing_in_a_row = 0
        self._last = ""

    @abstractmethod
    def _key(self, row: str, columns: Mapping[str, Any]) -> Any:
        """What the row says about the right answer, as JSON. Raises InputError when it does not."""

    @abstractmethod
    async def _scores(self, row: str, key: Any, texts: list[str]) -> list[Score]:
        """One score for each text; none of them is too long."""

    def check(self, tasks: Sequence[Task]) -> None:
        """Raises InputError when a task lacks what the reward compares with."""
        for task in tasks:
            self._key(task.id, task.columns)

    async def score(self, row: str, columns: Mapping[str, Any], completions: list[str]) -> list[Score]:
        """See `Reward.score`. A row without a right answer makes its scores missing."""
        place = self._outcomes.begin()
        try:
            key = self._key(row, columns)
        except InputError as error:
            kind = "bad_key" if isinstance(error, BadKeyError) else "no_key"
            scores: list[Score] = [Missing(Status.VERIFIER_ERROR, str(error), kind)] * len(completions)
        else:
            short = [text for text in completions if len(text) <= LONGEST]
            judged = iter(await self._scores(row, key, short) if short else [])
            scores = [next(judged) if len(text) <= LONGEST else _too_long(text) for text in completions]
        self._counts.update(score.kind for score in scores if isinstance(score, (Judged, Missing)))
        missing = [score.reason for score in scores if isinstance(score, Missing)]
        self._outcomes.end(place, missing[-1] if len(missing) == len(scores) else _WORKED)
        return scores

    def settle(self) -> None:
        """Raises RunError when nothing at all could be judged for a while: training on would only hide the fault."""
        for outcome in self._outcomes.take():
            if outcome == _WORKED:
                self._missing_in_a_row = 0
            else:
                self._missing_in_a_row, self._last = self._missing_in_a_row + 1, outcome
        if self._missing_in_a_row >= FAILURES_TO_STOP:
            raise RunError(
                f"the {self.name!r} reward could judge nothing of the last {self._missing_in_a_row} groups, so there "
                f"is nothing to train on. {self._last}"
            )

    def counts(self) -> dict[str, int]:
        """How often each kind of `SCORED` and `MISSING` came."""
        return dict(self._counts)

    def state(self) -> dict[str, Any]:
        """What a resumed run needs to count on and to stop at the same place."""
        counts = dict(sorted(self._counts.items()))
        return {"counts": counts, "missing_in_a_row": self._missing_in_a_row, "last": self._last}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self._counts = Counter(state["counts"])
        self._missing_in_a_row = int(state["missing_in_a_row"])
        self._last = str(state["last"])


def _too_long(text: str) -> Judged:
    return Judged(0.0, "too_long", f"{len(text):,} characters", Status.AGENT_ERROR)
