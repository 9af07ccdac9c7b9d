"""Multiple choice: which option a completion names, by a stated rule."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from typing import Any, Literal

from burnish.feedback.checks.final import after_thoughts, read
from burnish.feedback.checks.outcome import Found
from burnish.feedback.checks.texts import normalised

Rule = Literal["any", "boxed", "stated", "bare", "pattern"]
r"""boxed: the last \boxed{}; stated: what follows the last "answer is" or "answer:"; bare: the whole text or its last
line; any: the first of these three that finds something; pattern: the last match of a regular expression."""

_WRAPPED = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\{([^{}]*)\}")
_OPTION = re.compile(
    r"^(?:the\s{1,4})?(?:option|choice|answer)\s{1,4}(?=[(\[*_]{0,4}[^\W_]{1,3}(?:[^\w]|$))", re.IGNORECASE
)
_LABEL = re.compile(r"[(\[]?\s*([^\W_]{1,3})\s*(?:[)\].:,;]+(?:[ \t].*)?|[ \t]+(?:because|since|as)\b.*)?")
_LISTED = re.compile(r"[(\[]?\s*([^\W_]{1,3})\s*[)\]]?\s*(?:,|/|&|\bor\b|\band\b)\s*[(\[]?\s*([^\W_]{1,3})\b")


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: key (a label), labels, options (texts, or empty), text, thoughts, rule, pattern, option_text."""
    begin()
    pieces = _pieces(after_thoughts(job["text"], job["thoughts"]), job["rule"], job["pattern"])
    options = job["options"] if job["option_text"] else []
    for piece in pieces:
        named = _OPTION.sub("", piece).lstrip(" *_")  # "option B" is B
        if label := _alone(named, job["labels"]):
            return Found(1.0) if label == job["key"] else Found(0.0, "wrong")
        if label := _meant(piece, job["labels"], options):
            return Found(1.0) if label == job["key"] else Found(0.0, "wrong")
        if _lists(named, job["labels"]):
            return Found(0.0, "several_answers", f"more than one option in {piece[:80]!r}")
        if label := _labelled(named, job["labels"]):
            return Found(1.0) if label == job["key"] else Found(0.0, "wrong")
    return Found(0.0, "no_answer", f"no option is found by the rule {job['rule']!r}")


def _pieces(text: str, rule: Rule, pattern: str | None) -> list[str]:
    """Where the answer may stand, the likeliest first."""
    if rule == "pattern":
        matches = list(re.finditer(pattern or "", text))
        found = [matches[-1][1 if matches[-1].re.groups else 0] or ""] if matches else []
    else:
        places = {
            "boxed": ("boxed",), "stated": ("stated",), "bare": ("whole", "last_line"),
            "any": ("boxed", "stated", "whole", "last_line"),
        }[rule]  # fmt: skip
        found = [piece for place in places if (piece := read(text, place)) is not None]
    wide = (unicodedata.normalize("NFKC", _WRAPPED.sub(r"\1", piece)) for piece in found)
    return [piece.strip(" \t\r\n*_$\"'") for piece in wide]


def _alone(piece: str, labels: list[str]) -> str | None:
    """The label that the piece is and nothing else; it goes before an option whose text is such a label."""
    return {label.casefold(): label for label in labels}.get(piece.strip(" ()[].").casefold())


def _meant(piece: str, labels: list[str], options: list[str]) -> str | None:
    """The label of the option whose text this is, when it is one option's alone."""
    if not options:
        return None
    plain = _plain(piece)
    meant = [label for label, option in zip(labels, options, strict=True) if _plain(option) == plain]
    return meant[0] if len(meant) == 1 else None


def _lists(piece: str, labels: list[str]) -> bool:
    """Whether the piece begins with two labels: "A or B", "A, B"."""
    match = _LISTED.match(piece)
    folded = {label.casefold() for label in labels}
    return match is not None and {match[1].casefold(), match[2].casefold()} <= folded and match[1] != match[2]


def _labelled(piece: str, labels: list[str]) -> str | None:
    """The label that the piece is, or that introduces it: "B", "(B)", "B: Paris", "B because ..."."""
    match = _LABEL.fullmatch(piece)
    return None if match is None else {label.casefold(): label for label in labels}.get(match[1].casefold())


def _plain(text: str) -> str:
    return normalised(text, ("width", "case", "space")).rstrip(".")
