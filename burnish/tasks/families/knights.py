"""Knights and Knaves, solved case by case in claims that a program can judge: the family `knights`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burnish.tasks.families.generated import Asking, Item
from burnish.tasks.families.puzzles import Puzzle, Said, core, draw_puzzle, search
from burnish.tasks.families.records import NAMES
from burnish.tasks.families.spec import KnightsSpec
from burnish.tasks.task import Task

LETTERS = "ABCDE"
_KIND = {"k": "a knight", "n": "a knave"}
_SIGN = {"same": "=", "differ": "!", "and": "&", "or": "|"}


@dataclass(frozen=True)
class Knights:
    """A puzzle and the names of its people."""

    puzzle: Puzzle
    names: tuple[str, ...]


def _short(said: Said) -> str:
    """`Bn`, `B=C`, `B!C`, `Ak&Bn`, `Ak|Bn`."""
    kinds = said.kinds or "  "
    return _SIGN.get(said.form, "").join(
        f"{LETTERS[person]}{kind}".strip() for person, kind in zip(said.about, kinds, strict=False)
    )


def _sentence(said: Said, names: Sequence[str]) -> str:
    who = [names[person] for person in said.about]
    if said.form in ("same", "differ"):
        return f"{who[0]} and {who[1]} are {'of the same kind' if said.form == 'same' else 'of different kinds'}."
    parts = [f"{name} is {_KIND[kind]}" for name, kind in zip(who, said.kinds, strict=True)]
    return (f" {said.form} ".join(parts)) + "."


def question(item: Knights, *, short: bool = False) -> str:
    """What is asked: sentences, or with `short` what each says, `A:Bn B:A=C C:Ak|Bn`."""
    if short:
        return " ".join(f"{LETTERS[person]}:{_short(said)}" for person, said in enumerate(item.puzzle))
    names = item.names
    words = " ".join(f'{names[i]} says: "{_sentence(said, names)}"' for i, said in enumerate(item.puzzle))
    everybody = ", ".join(names[:-1]) + f" and {names[-1]}"
    # forms that are right of no puzzle, so that copying one is never an answer
    stranger = next(name for name in NAMES if name not in names)
    return (
        f"{everybody} are each a knight, whose words are always true, or a knave, whose words are always false. {words}"
        f"\n\nFind out who is what by cases, {names[0]} first and knight before knave. When a case cannot be, write it "
        f'on a line with the first person whose words cannot fit it, such as "knight, knave: {stranger}", and go on '
        "to the next. When nobody's words speak against a case, go on to the next person within it without writing "
        "anything. "
        'End with the case that fits everybody, such as "knight, ..., knave: fits". Write nothing else.'
    )


def claims(item: Knights, *, short: bool = False) -> list[list[str]]:
    """What the right answer claims, in order: for each case that is tried the ways to rule it out, then what fits."""
    found = []
    for case, against in search(item.puzzle):
        start = case if short else ", ".join("knight" if kind == "k" else "knave" for kind in case)
        names = [LETTERS[person] if short else item.names[person] for person in against]
        space = ":" if short else ": "
        found.append([f"{start}{space}{name}" for name in names or ["ok" if short else "fits"]])
    return found


def knights_tasks(
    spec: KnightsSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (a claim a line), level, claims (a list of right texts for each).

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item | None:
        people = level + 1
        puzzle = draw_puzzle(random, people)
        names = tuple(NAMES[int(place)] for place in random.permutation(len(NAMES))[:people])
        if puzzle is None:
            return None
        item = Knights(puzzle, names)
        return Item(core(puzzle), question(item, short=True), item)

    def written(item: Knights) -> tuple[str, str, dict[str, Any]]:
        right = claims(item, short=short)
        return question(item, short=short), "\n".join(ways[0] for ways in right), {"claims": right}

    return Asking(spec, "knights", seed, chat, system, demonstrations).tasks(draw, written)
