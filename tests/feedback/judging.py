"""What tests of verifiers share: a spec, a row and texts in, verdicts out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from burnish.feedback import Feedback, FeedbackSpec, build
from burnish.feedback.workers.pool import Pool
from burnish.traces import CONTEXT, Group, Role, Span, Trace, Verdict


def feedback(spec: Any, pool: Pool | None = None, **more: Any) -> Feedback:
    return build(FeedbackSpec.model_validate(spec), pool=pool, **more)


def judged(
    spec: Any, columns: Mapping[str, Any], texts: Sequence[str], pool: Pool | None = None, **more: Any
) -> list[Verdict]:
    return asyncio.run(feedback(spec, pool, **more).verdicts("row-1", columns, list(texts)))


def rewards(
    spec: Any, columns: Mapping[str, Any], texts: Sequence[str], pool: Pool | None = None, **more: Any
) -> list[float | None]:
    return [verdict.reward for verdict in judged(spec, columns, texts, pool, **more)]


def kind(verdict: Verdict) -> str:
    """What is named of the only component that has something named."""
    kinds = verdict.evidence.get("kinds", {})
    assert len(kinds) <= 1
    return next(iter(kinds.values()), "")


def kinds(
    spec: Any, columns: Mapping[str, Any], texts: Sequence[str], pool: Pool | None = None, **more: Any
) -> list[str]:
    return [kind(verdict) for verdict in judged(spec, columns, texts, pool, **more)]


def group(key: str, texts: Sequence[str], **columns: Any) -> Group:
    members = [Span(t := Trace(text), t.add(-1, [1], CONTEXT, Role.PROMPT)) for text in texts]
    return Group(key, members, columns=columns)


text_of: Callable[[Span], str] = lambda span: span.trace.id  # noqa: E731
