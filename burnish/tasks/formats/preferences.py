"""How formats read answers of known standing: better and worse ones, ranked ones, good and bad ones."""

from __future__ import annotations

import re
from typing import Any

from burnish.tasks.answers import Comparison, Judged, Message, Preference, Shown, ranked
from burnish.tasks.faults import RowError
from burnish.tasks.formats.conversations import conversation, in_share_form
from burnish.tasks.formats.reader import Reader

MARGINS = (
    ("score_chosen", "score_rejected"), ("chosen_score", "rejected_score"), ("chosen_rating", "rejected_rating"),
    ("chosen-rating", "rejected-rating"),
)  # fmt: skip
"""Pairs of columns whose difference is the margin, where there is no column `margin`."""

_TURN = re.compile(r"\n\n(Human|Assistant): ?")  # Bai et al. 2022, arXiv 2204.05862 (hh-rlhf)


def compared(
    reader: Reader, prompt: tuple[Message, ...] | str | None, names: tuple[str, str] = ("chosen", "rejected")
) -> tuple[tuple[Message, ...] | str, Preference]:
    """The prompt and a preference from two columns; the second may hold a list of texts, all worse than the first.

    Without a prompt, and where the answers begin with the prompt's messages, the prompt is what both begin with.
    Raises RowError.
    """
    better, worse = (_answer(reader, name) for name in names)
    if better == worse:
        raise RowError("preference", f"{_both(reader, names)} are the same; remove the row")
    listed = reader.row[reader.column(names[1])]
    several = isinstance(listed, list) and bool(listed) and all(isinstance(text, str) for text in listed)
    if several:
        if prompt is None:
            raise RowError("prompt", f"several answers in {reader.column(names[1])!r} need a column with the prompt")
        answers = [reader.shown(names[0]), *(reader.shown(names[1], text) for text in listed)]
    else:
        prompt, first, second = _parted(reader, prompt, better, worse, names)
        answers = [first, second]
    if any(answer == answers[0] for answer in answers[1:]):
        raise RowError("preference", f"{_both(reader, names)} are the same; remove the row")
    margin = _margin(reader)
    assert prompt is not None
    return prompt, Preference(tuple(answers), tuple(Comparison(0, i, margin) for i in range(1, len(answers))))


def _both(reader: Reader, names: tuple[str, str]) -> str:
    return f"{reader.column(names[0])!r} and {reader.column(names[1])!r}"


def _answer(reader: Reader, name: str) -> Any:
    value = reader.value(name)
    if isinstance(value, dict):
        value = [value]
    if in_share_form(value):
        return conversation(value, reader.column(name))
    return value


def _parted(
    reader: Reader, prompt: tuple[Message, ...] | str | None, better: Any, worse: Any, names: tuple[str, str]
) -> tuple[tuple[Message, ...] | str, Shown, Shown]:
    """The prompt and the two answers, which may both begin with it."""
    whole = all(
        isinstance(value, (list, tuple)) and value and _role(value[0]) != "assistant" for value in (better, worse)
    )
    if prompt is not None and not whole:
        return prompt, reader.shown(names[0], _checked(better)), reader.shown(names[1], _checked(worse))
    if isinstance(better, str) and isinstance(worse, str):
        before, first, second = _parted_texts(reader, better, worse, names)
    elif whole:
        before, first, second = _parted_messages(reader, better, worse, names)
    else:
        raise RowError("type", f"{_both(reader, names)} must both be texts or both be lists of messages")
    if prompt is not None and not _same(prompt, before):
        raise RowError(
            "prompt", f"{_both(reader, names)} begin with another prompt than the one given; remove one of them"
        )
    return before, first, second


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _checked(value: Any) -> Any:
    """What `Reader.shown` takes; null is not a text."""
    if value is None:
        raise RowError("type", "an answer must be a text or a list of messages, not null")
    return list(value) if isinstance(value, tuple) else value


def _same(prompt: tuple[Message, ...] | str, before: tuple[Message, ...] | str) -> bool:
    if isinstance(prompt, tuple) or isinstance(before, str):
        return prompt == before
    return [m["content"].strip() for m in before if m["role"] == "user"][-1:] == [prompt.strip()]


def _parted_messages(
    reader: Reader, better: Any, worse: Any, names: tuple[str, str]
) -> tuple[tuple[Message, ...], tuple[Message, ...], tuple[Message, ...]]:
    first, second = (conversation(list(v), reader.column(n)) for v, n in zip((better, worse), names, strict=True))
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    while 0 < shared == min(len(first), len(second)):
        shared -= 1  # the last message is an answer even where both are the same
    if not shared or any(rest[0]["role"] != "assistant" for rest in (first[shared:], second[shared:])):
        raise RowError(
            "prompt",
            f"{_both(reader, names)} must begin with the same messages, up to an assistant's turn in each; "
            "that is the prompt",
        )
    return first[:shared], first[shared:], second[shared:]


def _parted_texts(
    reader: Reader, better: str, worse: str, names: tuple[str, str]
) -> tuple[tuple[Message, ...] | str, Shown, Shown]:
    """Turns marked by Human: and Assistant: become messages; of other texts the prompt is the words both begin with."""
    if reader.chat and all(text.startswith("\n\nHuman:") for text in (better, worse)):
        return _parted_messages(reader, _turns(better), _turns(worse), names)
    shared = 0
    while shared < min(len(better), len(worse)) and better[shared] == worse[shared]:
        shared += 1
    # not within a word; the space belongs to the answer, as in TRL
    shared = max(better.rfind(space, 0, shared) for space in " \n")
    if shared <= 0 or not better[:shared].strip():
        raise RowError("prompt", f"{_both(reader, names)} begin with no common words: give a column `prompt`")
    return better[:shared], reader.shown(names[0], better[shared:]), reader.shown(names[1], worse[shared:])


def _turns(text: str) -> list[Message]:
    pieces = _TURN.split(text)[1:]
    names = {"Human": "user", "Assistant": "assistant"}
    return [
        {"role": names[name], "content": said.strip()} for name, said in zip(pieces[::2], pieces[1::2], strict=True)
    ]


def _margin(reader: Reader) -> float | None:
    """By how much the chosen answer is better. Raises RowError for one that says the contrary."""
    if reader.has("margin"):
        margin = reader.number("margin")
    else:
        pair = next((pair for pair in MARGINS if all(reader.has(name) for name in pair)), None)
        if pair is None:
            return None
        margin = reader.number(pair[0]) - reader.number(pair[1])
    if margin < 0:
        raise RowError("preference", f"the margin is {margin:g}: the rejected answer is said to be the better one")
    return margin


def in_order(reader: Reader) -> Preference:
    """Several answers to a prompt, with ranks (1 is the best) or scores (more is better); equal ones tie.

    They stand in `completions` or `responses` with `ranks`, `scores` or `ratings` beside it, or in `answers` as objects
    with `answer` and `rank` (Axolotl's zephyr.nectar). Raises RowError.
    """
    texts, worth, margins = _nectar(reader) if _is_nectar(reader) else _listed(reader)
    if len(texts) < 2:
        raise RowError("preference", "one answer alone is better than none other; remove the row")
    if len(set(worth)) == 1:
        raise RowError("preference", "all answers are ranked alike; remove the row")
    name = next(n for n in ("completions", "responses", "answers") if reader.has(n))
    return ranked([reader.shown(name, _checked(text)) for text in texts], worth, margins=margins)


def _is_nectar(reader: Reader) -> bool:
    return reader.has("answers")


def _nectar(reader: Reader) -> tuple[list[Any], list[float], bool]:
    column, listed = reader.column("answers"), reader.value("answers")
    right = isinstance(listed, list) and all(
        isinstance(each, dict) and "answer" in each and _is_number(each.get("rank")) for each in listed
    )
    if not right:
        raise RowError("type", f"{column!r} must be a list of objects with answer and rank")
    return [each["answer"] for each in listed], [-float(each["rank"]) for each in listed], False


def _listed(reader: Reader) -> tuple[list[Any], list[float], bool]:
    name = "completions" if reader.has("completions") else "responses"
    by = next((n for n in ("ranks", "scores", "ratings") if reader.has(n)), "ranks")
    texts, worth = reader.value(name), reader.value(by)
    if not isinstance(texts, list) or not isinstance(worth, list) or not all(_is_number(each) for each in worth):
        raise RowError("type", f"{reader.column(name)!r} must be a list of answers, and {by!r} a list of numbers")
    if len(texts) != len(worth):
        raise RowError("type", f"{len(texts)} answers and {len(worth)} {by}: give one for each")
    sign = -1.0 if by == "ranks" else 1.0
    return texts, [sign * float(each) for each in worth], by != "ranks"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def judged(reader: Reader, answer: Shown) -> Judged:
    """An answer with the label beside it: true or false, in `label` or `kto_tag`. Raises RowError."""
    name = "label" if reader.has("label") else "kto_tag"
    good = reader.value(name)
    if not isinstance(good, bool):
        raise RowError("type", f"{reader.column(name)!r} must be true (a good answer) or false (a bad one)")
    return Judged(answer, good)
