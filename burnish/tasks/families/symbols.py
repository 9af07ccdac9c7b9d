"""Texts without a meaning, to close, to sort or to copy: the family `symbols`."""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from burnish.tasks.families.generated import Asking, Item, pick
from burnish.tasks.families.spec import Symbols, SymbolsSpec
from burnish.tasks.task import Task

BRACKETS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_LENGTHS = {1: (3, 5), 2: (6, 8), 3: (9, 12), 4: (13, 16)}
_LETTERS = {"sort": string.ascii_lowercase, "copy": string.ascii_letters + string.digits}
_FULL: dict[Symbols, str] = {
    "brackets": "Which closing brackets does {text} lack at its end? Answer with them only, without spaces.",
    "sort": "Put the letters of {text} in the order of the alphabet. Answer with the letters only, without spaces.",
    "copy": "Repeat this text exactly: {text}. Answer with the text only.",
}


def answer_of(task: Symbols, text: str) -> str:
    """The right answer: the brackets that close what is open, the sorted letters, or the text."""
    if task == "copy":
        return text
    if task == "sort":
        return "".join(sorted(text))
    still_open: list[str] = []
    for sign in text:
        if sign in BRACKETS:
            still_open.append(sign)
        else:
            still_open.pop()
    return "".join(BRACKETS[sign] for sign in reversed(still_open))


def draw_text(random: np.random.Generator, task: Symbols, level: int) -> str:
    """A text of the level's length; brackets close only what is open, the last one first, and leave some open."""
    low, high = _LENGTHS[level]
    length = int(random.integers(low, high + 1))
    if task != "brackets":
        return "".join(pick(random, _LETTERS[task]) for _ in range(length))
    text = ""
    for place in range(length):
        missing = answer_of(task, text)
        closes = missing and random.random() < 0.4 and (len(missing) > 1 or place < length - 1)
        text += missing[0] if closes else pick(random, tuple(BRACKETS))
    return text


def question(task: Symbols, text: str, *, short: bool = False) -> str:
    """What is asked: a sentence, or with `short` the first letter of the task and the text, `s:dacb`."""
    return f"{task[0]}:{text}" if short else _FULL[task].format(text=text)


def symbols_tasks(
    spec: SymbolsSpec, *, seed: int, chat: bool, system: str | None = None, demonstrations: bool = False
) -> list[Task]:
    """The family's tasks. Columns: prompt, answer (the text), level, task.

    Raises InputError when the family does not hold `spec.count` items of the levels asked for.
    """
    short = spec.wording == "short"

    def draw(random: np.random.Generator, level: int) -> Item | None:
        task = pick(random, spec.tasks)
        text = draw_text(random, task, level)
        done = task == "sort" and text == answer_of(task, text)  # a copy would do
        return None if done else Item(f"{task} {text}", "", (task, text))

    def written(content: tuple[Symbols, str]) -> tuple[str, str, dict[str, Any]]:
        task, text = content
        return question(task, text, short=short), answer_of(task, text), {"task": task}

    return Asking(spec, "symbols", seed, chat, system, demonstrations).tasks(draw, written)
