"""Does a text follow its instructions, in the manner of IFEval (Zhou et al. 2023): strict or loose, a share or all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from burnish.feedback.checks.constraints import CONSTRAINTS, refusal
from burnish.feedback.checks.final import after_thoughts
from burnish.feedback.checks.outcome import Found, Unjudged


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: ids, arguments (one object for each id), text, thoughts, loose, credit ("fraction" or "all").

    Raises Unjudged when an instruction is not known or its arguments are wrong.
    """
    instructions = list(zip(job["ids"], map(present, job["arguments"]), strict=True))
    for id, arguments in instructions:
        if why := refusal(id, arguments):
            raise Unjudged("bad_key", why)
    begin()
    text = after_thoughts(job["text"], job["thoughts"])
    if not text.strip():
        return Found(0.0, "no_answer", "the answer is empty")
    forms = loose_forms(text) if job["loose"] else [text]
    broken = [id for id, arguments in instructions if not _followed(id, arguments, forms)]
    share = 1.0 - len(broken) / len(instructions)
    if not broken:
        return Found(1.0)
    value = share if job["credit"] == "fraction" else 0.0
    return Found(value, "not_followed", f"not followed: {', '.join(broken)[:200]}")


def present(arguments: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments that are there. Tables write null in all other columns; 0, false and "" are values."""
    return {name: value for name, value in (arguments or {}).items() if value is not None}


def loose_forms(text: str) -> list[str]:
    """The text, without its first line, its last, both; and each of these without asterisks."""
    lines = text.split("\n")
    forms = [text, *("\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1]))]
    return [*forms, *(form.replace("*", "") for form in forms)]


def _followed(id: str, arguments: dict[str, Any], forms: list[str]) -> bool:
    return any(form.strip() and CONSTRAINTS[id](form, **arguments) for form in forms)
