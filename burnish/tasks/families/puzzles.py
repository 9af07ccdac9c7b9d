"""Knights and Knaves: what people say, which cases it rules out, and the search for the one that is left.

A case is a text of `k` and `n`, one for each of the first people: what is assumed of them so far. It is ruled out by
someone whose words fit it in no way, whatever the others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np

from burnish.tasks.families.generated import pick

KINDS = "kn"
"""Knight and knave, in the order in which cases are tried."""


@dataclass(frozen=True)
class Said:
    """What someone says: of one person what it is, of two whether they are the same, or both or one of two things."""

    form: str
    """is, same, differ, and, or."""
    about: tuple[int, ...]
    kinds: str = ""

    def true_in(self, case: str) -> bool:
        """Whether it is true where everybody's kind is known."""
        are = [case[person] for person in self.about]
        if self.form in ("same", "differ"):
            return (are[0] == are[1]) == (self.form == "same")
        right = [kind == said for kind, said in zip(are, self.kinds, strict=True)]
        return any(right) if self.form == "or" else all(right)

    def renamed(self, places: Sequence[int]) -> Said:
        """The same about others: person i is now `places[i]`."""
        moved = sorted(zip((places[person] for person in self.about), self.kinds or "  ", strict=False))
        return Said(self.form, tuple(person for person, _ in moved), "".join(kind for _, kind in moved).strip())


Puzzle = tuple[Said, ...]
"""What each person says."""


def fits(puzzle: Puzzle, speaker: int, case: str) -> bool:
    """Whether someone's words fit a case in which everybody's kind is known: a knight's are true, a knave's are not."""
    return puzzle[speaker].true_in(case) == (case[speaker] == "k")


def solutions(puzzle: Puzzle) -> list[str]:
    """The cases that everybody's words fit."""
    cases = map("".join, product(KINDS, repeat=len(puzzle)))
    return [case for case in cases if all(fits(puzzle, person, case) for person in range(len(puzzle)))]


def ruled_out_by(puzzle: Puzzle, case: str) -> list[int]:
    """The people whose words fit a case in no way, whatever the people are that it says nothing about."""
    wholes = [case + "".join(rest) for rest in product(KINDS, repeat=len(puzzle) - len(case))]
    return [person for person in range(len(puzzle)) if not any(fits(puzzle, person, whole) for whole in wholes)]


def search(puzzle: Puzzle) -> list[tuple[str, list[int]]]:
    """The cases that are tried, in order, with the people who rule each out; the last is the solution: nobody does.

    Knight comes before knave and the first person before the second. A case that nobody rules out is split by the
    next person, and only what is ruled out is told.
    """
    found: list[tuple[str, list[int]]] = []
    case = KINDS[0]
    while True:
        against = ruled_out_by(puzzle, case)
        if against or len(case) == len(puzzle):
            found.append((case, against))
        if not against and len(case) == len(puzzle):
            return found
        case = case.rstrip("n")[:-1] + "n" if against else case + KINDS[0]


def draw_puzzle(random: np.random.Generator, people: int) -> Puzzle | None:
    """Something said by each of so many people; None where it has not exactly one solution."""
    puzzle = tuple(_draw_said(random, person, people) for person in range(people))
    return puzzle if len(solutions(puzzle)) == 1 else None


def _draw_said(random: np.random.Generator, speaker: int, people: int) -> Said:
    form = pick(random, ("is", "is", "same", "differ", "and", "or"))
    if form == "is":
        return Said(form, (pick(random, [p for p in range(people) if p != speaker]),), pick(random, KINDS))
    pair = tuple(sorted(int(person) for person in random.choice(people, 2, replace=False)))
    return Said(form, pair, "" if form in ("same", "differ") else pick(random, KINDS) + pick(random, KINDS))


def core(puzzle: Puzzle) -> str:
    """The same for all orders of the people."""
    ways = []
    for places in permutations(range(len(puzzle))):
        moved = sorted((places[person], said.renamed(places)) for person, said in enumerate(puzzle))
        ways.append(" ".join(f"{said.form}{said.about}{said.kinds}" for _, said in moved))
    return min(ways)
