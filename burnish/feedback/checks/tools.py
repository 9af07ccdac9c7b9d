"""Are these the right tool calls: matched by name and arguments against the expected ones, in any order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burnish.feedback.checks.applicable import require_applicable
from burnish.feedback.checks.calls import Call, WrongCallError, described, found_calls, refuse_impossible
from burnish.feedback.checks.final import after_thoughts
from burnish.feedback.checks.jsons import BrokenJSON, equal, loads
from burnish.feedback.checks.matching import best_pairs
from burnish.feedback.checks.outcome import Found, Unjudged

Tools = Mapping[str, Mapping[str, Any]]
"""Name of a tool -> the schema of its parameters."""


def check(job: dict[str, Any], begin: Callable[[], None]) -> Found:
    """job: key (expected calls), tools (descriptions or None), text, thoughts, credit, name_share, argument_share,
    extra_arguments, alternatives.

    A call that cannot be made (broken JSON, unknown tool, wrong types) makes the whole answer 0. Raises Unjudged when
    key or tools cannot be read.
    """
    tools, expected = sound_row(job["key"], job["tools"], partly=job["alternatives"] or job["extra_arguments"])
    begin()
    try:
        calls = found_calls(after_thoughts(job["text"], job["thoughts"]), tools)
        if tools is not None:
            refuse_impossible(calls, tools)
    except WrongCallError as error:
        return Found(0.0, error.kind, error.reason)
    if expected and not calls:
        return Found(0.0, "no_call", "the answer calls no tool")
    return _valued(expected, calls, job)


def sound_row(calls: Sequence[Any], tools: Sequence[Any] | None, *, partly: bool) -> tuple[Tools | None, list[Call]]:
    """The tools of a row and the calls that it expects, which must be possible. Raises Unjudged where they are not.

    `partly`: the expected arguments are not such as a call has (several right values, some left out), so that only the
    names are held against the tools.
    """
    there = None if tools is None else described(tools)
    expected = [_expected(each) for each in calls]
    for schema in (there or {}).values():
        require_applicable(json.dumps(schema, sort_keys=True))
    try:
        if there is not None:
            refuse_impossible(
                [Call(c.name, {}) for c in expected if c.name not in there] if partly else expected, there
            )
    except WrongCallError as error:
        raise Unjudged("bad_key", f"the row expects a call that its tools do not allow: {error.reason}") from None
    return there, expected


def _expected(value: Any) -> Call:
    inner = value.get("function", value) if isinstance(value, dict) else None
    arguments = inner.get("arguments", {}) if isinstance(inner, dict) else None
    if isinstance(arguments, str):  # as OpenAI's interface writes them
        try:
            arguments = loads(arguments)
        except BrokenJSON as error:
            raise Unjudged("bad_key", f"the arguments of an expected call are no JSON: {error.reason}") from None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not isinstance(arguments, dict):
        raise Unjudged("bad_key", f"an expected call is an object with a name and arguments, not {str(value)[:80]}")
    return Call(inner["name"], arguments)


def _valued(expected: list[Call], calls: list[Call], job: dict[str, Any]) -> Found:
    worth = [[_worth(right, call, job) for call in calls] for right in expected]
    total = sum(worth[r][c] for r, c in best_pairs(worth)) if expected and calls else 0.0
    longer = max(len(expected), len(calls))
    right = longer == 0 or (len(expected) == len(calls) and total == longer)
    if right:
        return Found(1.0)
    reason = f"{len(calls)} calls for {len(expected)} expected, worth {total:.3g}"
    match job["credit"]:
        case "fraction":
            return Found(total / longer, "wrong", reason)
        case "f1":
            return Found(2.0 * total / (len(expected) + len(calls)), "wrong", reason)
    return Found(0.0, "wrong", reason)


def _worth(right: Call, call: Call, job: dict[str, Any]) -> float:
    """1 for the right call; 0 for another tool; in between when partial credit is given."""
    if call.name != right.name:
        return 0.0
    share = _share(right.arguments, call.arguments, job["alternatives"], job["extra_arguments"])
    if share == 1.0 or job["credit"] == "all":
        return float(share == 1.0)
    return job["name_share"] + (1.0 - job["name_share"]) * (share if job["argument_share"] else 0.0)


def _share(right: dict[str, Any], given: dict[str, Any], alternatives: bool, extra: bool) -> float:
    """Arguments that are right over all that count: the expected ones, and those given besides unless allowed."""
    good = sum(_fits(value, given, name, alternatives) for name, value in right.items())
    more = 0 if extra else len(given.keys() - right.keys())
    return good / (len(right) + more) if right or more else 1.0


def _fits(value: Any, given: dict[str, Any], name: str, alternatives: bool) -> bool:
    """Whether an argument is as expected. Of alternatives one must fit; "" among them: the argument may be absent."""
    if not alternatives:
        return name in given and equal(value, given[name])
    options = value if isinstance(value, list) else [value]
    if name not in given:
        return "" in options
    return any(equal(option, given[name]) for option in options)
