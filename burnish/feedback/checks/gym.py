"""Answers to reasoning-gym's puzzles, scored by the library's own function of the family that made the puzzle.

Some of its families hand the candidate's text to `eval` or to sympy's parser, which is `eval` too. To those only texts
go that are plain data or plain mathematics; any other text could be a program and scores 0 (kind `unsafe`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.outcome import Found, Unjudged

EVALUATED = frozenset({"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"})
"""Families whose score calls `eval` on the answer."""

PARSED = frozenset(
    {"simple_integration", "intermediate_integration", "polynomial_multiplication", "puzzle24", "countdown"}
)
"""Families whose score calls sympy's `parse_expr` on the answer."""

_NAMES = {
    "sin", "cos", "tan", "sec", "csc", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "exp", "log", "ln", "sqrt", "pi", "Abs", "abs",
}  # fmt: skip
_WORD = re.compile(r"[A-Za-z]+")
_MATHEMATICS = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+|[A-Za-z]+|[-+*/^()!,=]|\s)*+")  # possessive: linear


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: entry (question, answer, metadata), text, read, thoughts, partial.

    Raises Unjudged when the library has no such family, or does not give the entry's own answer full marks.
    """
    family, entry, score = _entry(job["entry"])
    begin()
    text = read(after_thoughts(job["text"], job["thoughts"]), job["read"])
    if text is None:
        return Found(0.0, "no_answer", f"no answer is found by the rule {job['read']!r}")
    if (family in EVALUATED and not is_data(text)) or (family in PARSED and not is_mathematics(text, entry)):
        return Found(0.0, "unsafe", f"{family} would evaluate the answer, which is no plain value")
    try:
        value = float(score(text, entry))
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # noqa: BLE001 - the entry's own answer was scored above, so it is this text
        return Found(0.0, "unreadable", f"{type(error).__name__}: {str(error)[:200]}")
    if value >= 1.0:
        return Found(1.0)
    return Found(max(value, 0.0) if job["partial"] else 0.0, "wrong")


def _entry(entry: dict[str, Any]) -> tuple[str, dict[str, Any], Callable[[str, dict[str, Any]], float]]:
    family = entry["metadata"]["source_dataset"]
    score = scorer(family)
    if entry["answer"] is None:
        return family, entry, score
    for form in (entry, {**entry, "metadata": _tuples(entry["metadata"])}):  # JSON has made lists of the tuples
        if score(entry["answer"], form) >= 1.0:
            return family, form, score
    raise Unjudged("bad_key", f"{family} does not give the entry's own answer full marks")


@cache
def scorer(family: str) -> Callable[[str, dict[str, Any]], float]:
    """The library's score function. Raises Unjudged for a family that it does not have."""
    import reasoning_gym

    try:
        return reasoning_gym.get_score_answer_fn(family)  # type: ignore[return-value]
    except ValueError:
        raise Unjudged("bad_key", f"reasoning-gym has no family {family!r}") from None


def is_data(text: str) -> bool:
    """Whether `eval` of the text could run nothing: it is a literal, one word, or no expression at all."""
    if re.fullmatch(r"\s*\w+\s*", text):
        return True
    try:
        ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError):
        return not _is_expression(text)
    except ValueError:
        return False
    return True


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return True


def is_mathematics(text: str, entry: dict[str, Any]) -> bool:
    """Whether the text is numbers, operators, single letters and names of functions, and nothing else.

    Functions are the common ones and what the entry's own answer names: sympy leaves an integral it cannot solve.
    """
    if _MATHEMATICS.fullmatch(text) is None:
        return False
    known = _NAMES | set(_WORD.findall(str(entry["answer"])))
    return all(len(name) == 1 or name in known for name in _WORD.findall(text))


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    return {key: _tuples(each) for key, each in value.items()} if isinstance(value, dict) else value
