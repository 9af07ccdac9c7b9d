"""What every reward is: texts of one group in, one score or one reason for its absence each out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from burnish.ledger import Quantity
from burnish.tasks import Task
from burnish.traces import Status


@dataclass(frozen=True)
class Missing:
    """Why there is no score (promise E8: missing is never 0)."""

    status: Status
    reason: str


Score = float | Missing


def named(row: str, columns: Mapping[str, Any]) -> str:
    """A task for a message: its id and the beginning of its first text, by which a person finds the row."""
    text = next((value for value in columns.values() if isinstance(value, str) and value.strip()), "")
    return f"task {row} ({' '.join(text.split())[:60]!r})" if text else f"task {row}"


class Reward(Protocol):
    """One named component of the feedback."""

    name: str
    calls: Quantity | None
    """What the ledger counts a call of `score` as; None for what the machine works out by itself."""

    def check(self, tasks: Sequence[Task]) -> None:
        """Raise InputError when these tasks lack something that scoring will need. Called before the run."""
        ...

    async def score(self, row: str, columns: Mapping[str, Any], completions: list[str]) -> list[Score]:
        """One score per completion of a task; `row` names the task in messages, `columns` is its data row."""
        ...

    def settle(self) -> None:
        """Called after each batch of groups. Raises RunError when the reward does not work at all."""
        ...

    def counts(self) -> dict[str, int]:
        """What went wrong so far, by kind."""
        ...

    def state(self) -> dict[str, Any]:
        """JSON values that a resumed run needs."""
        ...

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up the state that `state` gave."""
        ...
