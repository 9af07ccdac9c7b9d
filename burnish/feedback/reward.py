"""What every reward is: texts of one group in, one score or one reason for its absence each out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from burnish.ledger import Quantity
from burnish.tasks import Task
from burnish.traces import Status


@dataclass(frozen=True)
class Missing:
    """Why there is no score (promise E8: missing is never 0). `kind` names it, as in `MISSING`."""

    status: Status
    reason: str
    kind: str = ""


@dataclass(frozen=True)
class Judged:
    """A score with the name of what the candidate did wrong, as in `SCORED`; `reason` says more for a person.

    `details` says more for a program, as JSON values: `Verdict.evidence["details"]` has them by component.
    """

    value: float
    kind: str
    reason: str = ""
    status: Status = Status.OK
    details: Mapping[str, Any] = field(default_factory=dict)


Score = float | Judged | Missing

SCORED: Mapping[str, str] = {
    "wrong": "the answer was read and is not the right one",
    "no_answer": "no answer is found by the rule that says where it stands",
    "several_answers": "more than one option is named",
    "not_followed": "an instruction is not followed",
    "too_long": "the text is longer than 1,000,000 characters",
    "too_deep": "nested too deeply to be read",
    "number_too_large": "a number is too large to be read",
    "time_limit": "checking the answer used up its processor time",
    "memory_limit": "checking the answer needed more memory than allowed",
    "crashed": "checking the answer ended the process that did it",
    "unreadable": "the library raises on this text, though not on the right answer",
    "unsafe": "the library would evaluate the text, and it is no plain value",
    "broken_json": "the text is no JSON, or not closed",
    "schema_mismatch": "the JSON does not satisfy the schema",
    "no_call": "a tool should have been called and was not",
    "too_many_calls": "more than 64 tool calls in one answer",
    "unknown_tool": "a tool is called that there is not",
    "missing_argument": "a required argument is absent",
    "unexpected_argument": "an argument is given that the tool does not take",
    "wrong_type": "an argument's value is not one that the tool's schema allows",
    "no_code": "there is no program in the text",
    "tests_failed": "the program ran and did not pass all its tests",
    "program_failed": "the program ended in an error before its tests were through",
    "claim_wrong": "a claim is not the right one at its place",
    "claims_missing": "the claims are right as far as they go, and the last ones are missing",
    "claims_extra": "all claims are right, and others follow",
    "broken_expression": "the text is no expression of numbers, + - * / and brackets",
    "wrong_numbers": "an expression uses the given numbers in another way than it should",
    "division_by_zero": "an expression divides by what comes to 0",
    "gated": "a gate was not reached",
}
"""What the candidate can cause -> in words. Scored: 0 where a kind gives no partial credit."""

UNREAD = frozenset({
    "no_answer", "several_answers", "too_long", "too_deep", "number_too_large", "unreadable", "unsafe", "broken_json",
    "schema_mismatch", "no_call", "too_many_calls", "unknown_tool", "missing_argument", "unexpected_argument",
    "wrong_type", "no_code", "broken_expression",
})  # fmt: skip
"""Of these, the kinds that say that no answer of the form asked for was found."""

LARGEST = 1e30
"""A reward beyond this overflows in single precision once it is squared or summed."""

MISSING: Mapping[str, str] = {
    "no_key": "the row has no right answer to compare with, or none of the kind that is needed",
    "bad_key": "the right answer, the schema or the arguments of the row cannot be read",
    "key_limit": "reading the right answer used up the time or the memory",
    "worker_killed": "the process that checked was ended from outside",
    "worker_stuck": "the process that checked stood still without computing",
    "pool_broken": "no process could be had",
    "library_missing": "a library that the check needs is not installed",
    "verifier_raised": "the check itself raised an error",
    "sandbox_failed": "the sandbox did not do its work",
    "raised": "the user's function raised an error",
    "timed_out": "the user's function ran past its limit",
    "invalid": "the user's function returned something else than a finite number",
    "none": "the user's function returned None",
    "overflow": "the weighted sum is beyond 1e30, with which nothing can be computed",
}
"""What the machinery or the data can cause -> in words. Never scored."""

ROWS_FAULTS = frozenset({"no_key", "bad_key", "key_limit", "none"})
"""What another sample of the same row would meet again."""


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


def written(score: Score) -> Any:
    """A score as a JSON value, for the journal."""
    if isinstance(score, Missing):
        return [score.status.value, score.reason, score.kind]
    return [score.status.value, score.reason, score.kind, score.value] if isinstance(score, Judged) else score


def from_written(value: Any) -> Score:
    """The score that `written` wrote."""
    if not isinstance(value, list):
        return float(value)
    status, reason, kind = Status(value[0]), value[1], value[2]
    return Judged(value[3], kind, reason, status) if len(value) > 3 else Missing(status, reason, kind)
