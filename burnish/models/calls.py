"""How a forest's attention is cut into calls on a CPU, whichever way costs least.

Sibling slots are one batch: they see the same keys before them, and causality hides from each what pads it. Small trees
are one product under one mask. A call's queries are contiguous and the calls cover the flat order;
models/call_attention.py computes them. No torch here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

_CALL_COST = 1_000_000
"""What one call costs beside its arithmetic, in multiply-adds of one product of a forward pass (measured order)."""


class SlotLike(Protocol):
    """A stretch `start:stop` of the flat order that continues from another, or from none (models/forest.py)."""

    @property
    def start(self) -> int:
        """First token."""
        ...

    @property
    def stop(self) -> int:
        """End of the stretch."""
        ...

    @property
    def parent(self) -> int:
        """Index of the slot before it on its path, or -1."""
        ...

    @property
    def position(self) -> int:
        """Position of the first token along the path."""
        ...


@dataclass
class _Stretch:
    """Slots of which each is the only one to continue its forerunner: one slot as far as attention goes."""

    start: int
    stop: int
    parent: int
    position: int
    tree: int


def _stretches(slots: Sequence[SlotLike]) -> list[_Stretch]:
    """The slots, chains of only children joined and empty ones left out; parents are indices of stretches."""
    trees: list[int] = []
    nearest: list[int] = []  # the slot itself, or for an empty one the last on its path that is not
    for index, slot in enumerate(slots):
        trees.append(trees[slot.parent] if slot.parent >= 0 else index)
        forerunner = nearest[slot.parent] if slot.parent >= 0 else -1
        nearest.append(index if slot.stop > slot.start else forerunner)
    parents = {i: nearest[s.parent] if s.parent >= 0 else -1 for i, s in enumerate(slots) if s.stop > s.start}
    children = Counter(parents.values())
    stretches: list[_Stretch] = []
    home: dict[int, int] = {-1: -1}
    for index, parent in parents.items():
        slot, before = slots[index], home[parent]
        if parent >= 0 and children[parent] == 1 and stretches[before].stop == slot.start:
            stretches[before].stop = slot.stop
            home[index] = before
        else:
            home[index] = len(stretches)
            stretches.append(_Stretch(slot.start, slot.stop, before, slot.position, trees[index]))
    return stretches


@dataclass(frozen=True)
class Branches:
    """Sibling slots of `lengths` tokens that attend to the calls of their ancestors and causally to themselves."""

    start: int
    stop: int
    ancestors: tuple[int, ...]
    """The calls, by index, whose tokens stand before every one of the slots, the root's first."""
    before: int
    """Tokens of the ancestors."""
    lengths: tuple[int, ...]

    @property
    def deepest(self) -> int:
        """Largest position along a path among the queries."""
        return self.before + max(self.lengths) - 1

    @property
    def pairs(self) -> int:
        """Query-key pairs that are computed, padding included."""
        longest = max(self.lengths)
        return len(self.lengths) * longest * (self.before + longest)


@dataclass(frozen=True)
class Trees:
    """Whole trees in one product, under a mask that says who sees whom."""

    start: int
    stop: int
    deepest: int

    @property
    def pairs(self) -> int:
        """Query-key pairs that are computed."""
        return (self.stop - self.start) ** 2


Call = Branches | Trees


def plan(slots: Sequence[SlotLike], width: int) -> list[Call]:
    """The calls of a forest for heads of `width` columns altogether, in flat order; they cover every token."""
    planner = _Planner(_stretches(slots), _CALL_COST / max(1, width))
    bare: list[int] = []  # trees of one stretch: in a row they are siblings too
    for _, tree in groupby(range(len(planner.stretches)), lambda i: planner.stretches[i].tree):
        indices = list(tree)
        if len(indices) == 1:
            bare += indices
        else:
            planner.add(bare)
            planner.add(indices)
            bare = []
    planner.add(bare)
    return planner.calls


@dataclass
class _Planner:
    """Chooses calls one tree after the other."""

    stretches: list[_Stretch]
    cost_of_call: float
    """In query-key pairs."""
    calls: list[Call] = field(default_factory=list)

    def add(self, indices: Sequence[int]) -> None:
        """Append calls for whole trees, or one over them all, or widen the last call over whole trees by them."""
        separate = self._separate(indices)
        if not separate:
            return
        start, stop = separate[0].start, separate[-1].stop
        deepest, cost = max(c.deepest for c in separate), sum(c.pairs + self.cost_of_call for c in separate)
        last, whole = self.calls[-1] if self.calls else None, Trees(start, stop, deepest)
        if isinstance(last, Trees):
            joined = Trees(last.start, stop, max(last.deepest, deepest))
            if joined.pairs < last.pairs + min(cost, whole.pairs + self.cost_of_call):
                self.calls[-1] = joined
                return
        self.calls.extend([whole] if whole.pairs + self.cost_of_call < cost else separate)

    def _separate(self, indices: Sequence[int]) -> list[Branches]:
        """Calls for some stretches, neighbouring siblings that nothing continues together while that costs less."""
        continued = {self.stretches[i].parent for i in indices}
        calls: list[_Siblings] = []
        call_of: dict[int, int] = {}
        open_parent: int | None = None
        for index in indices:
            stretch, bare = self.stretches[index], index not in continued
            parent, length = stretch.parent, stretch.stop - stretch.start
            if bare and open_parent == parent:
                last, alone = calls[-1], length * (stretch.position + length)
                if last.pairs_with(length) < last.pairs + alone + self.cost_of_call:
                    last.add(length)
                    continue
            ancestors = (*calls[call_of[parent] - len(self.calls)].ancestors, call_of[parent]) if parent >= 0 else ()
            call_of[index] = len(self.calls) + len(calls)
            calls.append(_Siblings(stretch.start, ancestors, stretch.position, [length], length))
            open_parent = parent if bare else None
        return [siblings.call() for siblings in calls]


@dataclass
class _Siblings:
    """A call on `Branches` that may still grow by a sibling: each costs the same, however many there are."""

    start: int
    ancestors: tuple[int, ...]
    before: int
    lengths: list[int]
    longest: int

    @property
    def pairs(self) -> int:
        return len(self.lengths) * self.longest * (self.before + self.longest)

    def pairs_with(self, length: int) -> int:
        """The pairs of them and another of that length."""
        longest = max(self.longest, length)
        return (len(self.lengths) + 1) * longest * (self.before + longest)

    def add(self, length: int) -> None:
        self.lengths.append(length)
        self.longest = max(self.longest, length)

    def call(self) -> Branches:
        """As it stands; siblings lie one behind the other."""
        return Branches(self.start, self.start + sum(self.lengths), self.ancestors, self.before, tuple(self.lengths))
