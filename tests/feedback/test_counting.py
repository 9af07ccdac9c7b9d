"""Calls of reward functions are counted, whatever became of them; what the machine works out by itself is not."""

from __future__ import annotations

import asyncio
from typing import Any

from burnish.feedback import FeedbackSpec, build
from burnish.ledger import Ledger
from burnish.traces import CONTEXT, Group, Role, Span, Status, Trace, Verdict


def length(completions: list[str], **columns: Any) -> list[float]:
    return [float(len(c)) for c in completions]


def fragile(completions: list[str], **columns: Any) -> list[float | None]:
    if "boom" in completions:
        raise RuntimeError("no")
    return [None] * len(completions)


def group(key: str, texts: list[str]) -> Group:
    members = [Span(t := Trace(text), t.add(-1, [1], CONTEXT, Role.PROMPT)) for text in texts]
    return Group(key, members, columns={"answer": "4"})


def test_one_call_for_each_group_and_function_under_the_role_that_asked() -> None:
    functions = [{"kind": "function", "function": f, "name": f.__name__} for f in (length, fragile)]
    ledger = Ledger()
    feedback = build(FeedbackSpec.model_validate([{"kind": "numeric"}, *functions]), ledger=ledger)
    groups = [group("a", ["4", "5"]), group("b", ["boom"]), group("c", ["x"]), group("d", ["lost"])]
    groups[3].members[0].verdict = Verdict.missing(Status.INFRA_ERROR, "the sandbox did not start")
    asyncio.run(feedback.judge(groups, lambda span: span.trace.id))
    assert ledger.total("reward", "reward_calls") == 3 * 2  # nothing is asked about the one that was lost
    asyncio.run(feedback.verdicts("t", {"answer": "4"}, ["4", "5", "6"], role="evaluation"))
    assert ledger.total("evaluation", "reward_calls") == 2
    assert ledger.to_json().keys() == {"reward", "evaluation"}
    assert all(ledger.total(role, "seconds") > 0 for role in ("reward", "evaluation"))
