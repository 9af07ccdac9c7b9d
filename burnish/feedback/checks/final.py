"""Where in a completion its answer stands. Every rule takes time linear in the length of the text."""

from __future__ import annotations

import re
from typing import Literal

LONGEST = 1_000_000
"""Characters; a longer text is not looked at (kind `too_long`)."""

Read = Literal["whole", "last_line", "boxed", "tag", "fenced", "stated"]
r"""whole: the text; last_line: its last line that is not empty; boxed: the last \boxed{...}; tag: the last
<answer>...</answer>; fenced: the last fenced block; stated: the line after the last "answer is" or "answer:"."""

_STATED = re.compile(r"\banswer(?:\s{0,4}(?:is|=)\s{0,4}:?|\s{0,4}\**\s{0,4}:)", re.IGNORECASE)
_FENCE = re.compile(r"^[ \t]{0,3}(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_ENDS = " \t\r\n*_"


def after_thoughts(text: str, end: str | None) -> str:
    """What follows the last end mark of the thoughts; nothing when thoughts were opened and never ended.

    >>> after_thoughts("<think>12?</think> 13", "</think>"), after_thoughts("<think>12", "</think>")
    (' 13', '')
    """
    if not end:
        return text
    _, found, rest = text.rpartition(end)
    if found:
        return rest
    return "" if end.startswith("</") and end.replace("</", "<", 1) in text else text


def read(text: str, rule: Read) -> str | None:
    """The answer by a rule, without the white space around it; None when there is none.

    >>> read(r"so \\boxed{\\frac{1}{2}}.", "boxed"), read("The answer is **B**.", "stated")
    ('\\\\frac{1}{2}', 'B')
    """
    match rule:
        case "whole":
            found = text
        case "last_line":
            found = text.rstrip().rpartition("\n")[2]
        case "boxed":
            found = _boxed(text)
        case "tag":
            found = _tagged(text)
        case "fenced":
            found = _fenced(text)
        case "stated":
            found = _stated(text)
    found = None if found is None else found.strip()
    return found or None


def _boxed(text: str) -> str | None:
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    start = text.index("{", start) + 1
    depth = 1
    for mark in re.finditer(r"(?<!\\)[{}]", text[start:]):
        depth += 1 if mark[0] == "{" else -1
        if not depth:
            return text[start : start + mark.start()]
    return None  # never closed


def _tagged(text: str) -> str | None:
    before, closed, _ = text.rpartition("</answer>")
    _, opened, found = before.rpartition("<answer>")
    return found if opened and closed else None


def _fenced(text: str) -> str | None:
    """The last complete block; a fence is closed by one of its own kind that is at least as long."""
    opened: re.Match[str] | None = None
    found = None
    for fence in _FENCE.finditer(text):
        if opened is None:
            opened = fence
        elif fence[1].startswith(opened[1]) and fence[0].strip() == fence[1]:
            found = text[opened.end() : fence.start()]
            opened = None
    return found


def _stated(text: str) -> str | None:
    last = None
    for last in _STATED.finditer(text):  # noqa: B007 - only the last one is wanted
        pass
    if last is None:
        return None
    line = text[last.end() :].lstrip(_ENDS + ":").partition("\n")[0]
    return line.strip(_ENDS).removesuffix(".").strip(_ENDS)
