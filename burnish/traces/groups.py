"""Spans and groups: named stretches of a trace, and the unit of credit they form."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from burnish.traces.trace import Trace
from burnish.traces.verdicts import Verdict


@dataclass(eq=False)
class Span:
    """Tokens `start:stop` on the path to node `leaf`; the whole path by default.

    `masked` takes the span out of every loss and every count (a machinery failure, an over-long answer left out) while
    it stays in the record. `state_key` names the state a step was taken in, for methods that compare equal states.
    """

    trace: Trace
    leaf: int
    name: str = "sample"
    start: int = 0
    stop: int | None = None
    state_key: str | None = None
    verdict: Verdict | None = None
    masked: bool = False

    def __post_init__(self) -> None:
        length = sum(len(self.trace.nodes[n]) for n in self.trace.path(self.leaf))
        stop = length if self.stop is None else self.stop
        if not 0 <= self.start <= stop <= length:
            raise ValueError(f"span {self.start}:{stop} does not lie on a path of {length} tokens")
        self.stop = stop

    @property
    def reward(self) -> float:
        """The verdict's reward; NaN while it is missing."""
        if self.verdict is None or self.verdict.reward is None:
            return float("nan")
        return self.verdict.reward

    @property
    def counts(self) -> bool:
        """Whether this member enters losses and statistics: not masked, and not judged without a reward."""
        return not self.masked and (self.verdict is None or self.verdict.reward is not None)


class RelationKind(StrEnum):
    """How one member of a group stands to another."""

    CHOSEN = "chosen"
    TIE = "tie"


@dataclass(frozen=True)
class Relation:
    """Member `better` is preferred to member `worse` by `margin`; for a tie the order has no meaning."""

    better: int
    worse: int
    kind: RelationKind = RelationKind.CHOSEN
    margin: float = 0.0


@dataclass(eq=False)
class Group:
    """A key and its member spans: the unit of credit. Groups nest, and a span may be in several.

    `columns` are the task's values (a data row), as handed to reward functions.
    """

    key: str
    members: list[Span] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    children: list[Group] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)

    def relate(self, relation: Relation) -> None:
        """Add a relation. Raises ValueError when it names a member that is not there."""
        for index in (relation.better, relation.worse):
            if not 0 <= index < len(self.members):
                raise ValueError(f"group {self.key!r} has {len(self.members)} members, none numbered {index}")
        if relation.better == relation.worse:
            raise ValueError("a member cannot be related to itself")
        self.relations.append(relation)

    @property
    def traces(self) -> list[Trace]:
        """The distinct traces of the members and of nested groups, in order of first appearance."""
        seen: dict[int, Trace] = {}
        for span in self.members:
            seen.setdefault(id(span.trace), span.trace)
        for child in self.children:
            for trace in child.traces:
                seen.setdefault(id(trace), trace)
        return list(seen.values())

    @property
    def rewards(self) -> np.ndarray:
        """Rewards of the members, shape [members]; NaN where missing or not counted."""
        return np.array([m.reward if m.counts else np.nan for m in self.members], dtype=np.float64)
