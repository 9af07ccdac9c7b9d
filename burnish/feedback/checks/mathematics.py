"""Mathematical answers, compared by math-verify: equal as expressions, not as texts.

math-verify's own time limits use `signal.alarm`, which works in a main thread only; elsewhere every answer comes out
wrong. They are off here: the worker's limits hold instead (burnish/feedback/workers), so this gives the same in any
thread and any process. Its parser has state of its own, so one call at a time goes through it in each process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.outcome import Found, Unjudged

_ONE_AT_A_TIME = threading.Lock()
_MARKED = re.compile(r"\$|\\\(|\\\[|\\boxed")


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: key (the right answer), text, read ("any" or "boxed"), repair, thoughts (their end mark or None).

    Raises Unjudged when the key cannot be read.
    """
    with _ONE_AT_A_TIME:
        key = _key(job["key"])
        begin()
        return _compared(key, after_thoughts(job["text"], job["thoughts"]), job["read"], job["repair"])


def warm() -> None:
    """Build the parser's tables, which takes longer than many an answer. Workers take them over from their mother."""
    check(
        {"key": r"\frac{1}{2}", "text": "$x + 1 = 0.5$", "read": "any", "repair": False, "thoughts": None}, lambda: None
    )


def _key(text: str) -> list[Any]:
    text = text.rpartition("####")[2].strip()  # GSM8K writes the reasoning, then "#### 72"
    for form in (text,) if _MARKED.search(text) else (f"${text}$", text):
        parsed = _parsed(form, repair=True)
        if any(not isinstance(each, str) for each in parsed):
            return parsed
    raise Unjudged("bad_key", f"the right answer {text[:80]!r} cannot be read as mathematics")


def _compared(key: list[Any], text: str, rule: str, repair: bool) -> Found:
    from math_verify import verify

    if rule == "boxed":
        inside = read(text, "boxed")
        if inside is None:
            return Found(0.0, "no_answer", r"no \boxed{...} in the text")
        text = rf"$\boxed{{{inside}}}$"
    answer = _parsed(text, repair=repair)
    if not answer:
        return Found(0.0, "no_answer", "nothing in the text reads as mathematics")
    if verify(key, answer, timeout_seconds=None):  # the order matters: the key comes first
        return Found(1.0)
    return Found(0.0, "wrong")


def _parsed(text: str, *, repair: bool) -> list[Any]:
    """Expressions in a text, and last the text itself; `repair` mends what is malformed before it is read."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    normal = NormalizationConfig(basic_latex=True, units=True, malformed_operators=repair, nits=repair, boxed="all")
    configs = [LatexExtractionConfig(boxed_match_priority=0, normalization_config=normal), ExprExtractionConfig()]
    return parse(text, configs, parsing_timeout=0)  # 0: none
