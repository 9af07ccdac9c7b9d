"""A rollout as columns of numbers: what the token view is drawn from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from burnish.errors import InputError
from burnish.traces import ROLES, Group, Span
from burnish.traces.outline import flat
from burnish.traces.store import author_text, read_groups
from burnish.view.rollouts import Decode, pieces
from burnish.view.stored import Stored

BEFORE, SHOWN = 300, 1200
"""Tokens of a rollout that a page shows: before the first sampled one, and from it on."""

LEARNERS, LOG_RATIO = ("learner_logprob", "old_logprob"), "log_ratio"
"""Signals that hold the learner's log-probability of a sampled token; what it is less the sampler's is called that."""

Packed = dict[str, Any]
"""JSON values of one rollout; a column has one entry per token, null where it has no value."""


def packed_rollouts(
    chosen: Sequence[tuple[Stored, str]], tokenizer: Decode, known: dict[str, Packed] | None = None
) -> list[Packed]:
    """Columns of the chosen rollouts, each trace file read once; those in `known`, by id, are taken from there.

    Raises InputError when a file is broken or has changed.
    """
    known = {} if known is None else known
    by_file: dict[Path, list[Stored]] = {}
    for stored, _ in chosen:
        if stored.id not in known:
            by_file.setdefault(stored.file, []).append(stored)
    for file, wanted in by_file.items():
        groups = flat(read_groups(file))
        for stored in wanted:
            known[stored.id] = _packed(stored, groups, tokenizer)
    return [{**known[stored.id], "why": why} for stored, why in chosen]


def _packed(stored: Stored, groups: Sequence[Group], tokenizer: Decode) -> Packed:
    try:
        group = groups[stored.group]
        span = group.members[stored.member]
    except IndexError:
        raise InputError(f"{stored.file} changed while it was read: start again") from None
    tokens = _tokens(span, tokenizer)
    verdict = span.verdict
    return {
        "id": stored.id,
        "step": stored.step,
        "group": stored.group,
        "key": group.key[:200],
        "member": stored.member,
        "members": len(group.members),
        "reward": _number(span.reward),
        "status": verdict.status.value if verdict else "not judged",
        "reason": (verdict.reason or "")[:400] if verdict else "",
        "components": {str(k)[:80]: _number(v) for k, v in list((verdict.components or {}).items())[:24]}
        if verdict
        else {},
        "masked": span.masked,
        "siblings": [_number(member.reward) for member in group.members[:64]],
        **tokens,
    }


def _tokens(span: Span, tokenizer: Decode) -> Packed:
    """Text, ids, authors, roles and every signal of the tokens shown, and how many stand before and behind them."""
    trace = span.trace
    nodes = [trace.nodes[n] for n in trace.path(span.leaf)]
    ids = np.concatenate([node.tokens for node in nodes])
    logprobs = np.concatenate([node.logprobs for node in nodes]).astype(np.float64)
    sampled = np.flatnonzero(~np.isnan(logprobs))
    first = int(sampled[0]) if len(sampled) else len(ids)
    low, high = max(0, first - BEFORE), min(len(ids), first + SHOWN)
    names = dict.fromkeys(name for node in nodes for name, s in node.signals.items() if s.values.ndim == 1)
    columns = {"logprob": logprobs}
    for name in names:
        parts = [node.signals.get(name) for node in nodes]
        columns[name] = np.concatenate(
            [
                np.full(len(node), np.nan) if signal is None or signal.values.ndim != 1 else signal.values
                for node, signal in zip(nodes, parts, strict=True)
            ]
        ).astype(np.float64)
    learner = next((columns[name] for name in LEARNERS if name in columns), None)
    if learner is not None and LOG_RATIO not in columns:
        columns[LOG_RATIO] = learner - logprobs
    texts = pieces(tokenizer, ids[max(0, low - 1) : high].tolist())
    authors = np.concatenate([node.authors for node in nodes])[low:high]
    roles = np.concatenate([node.roles for node in nodes])[low:high]
    return {
        "before": low,
        "after": len(ids) - high,
        "start": first - low,
        "tokens": int(np.sum(~np.isnan(logprobs))),
        "texts": texts[min(low, 1) :],
        "ids": ids[low:high].tolist(),
        "authors": [author_text(author) for author in trace.authors],
        "author": authors.tolist(),
        "roles": [role.value for role in ROLES],
        "role": roles.tolist(),
        "columns": {name: _column(values[low:high]) for name, values in columns.items() if _some(values[low:high])},
    }


def _some(values: np.ndarray) -> bool:
    return bool(np.isfinite(values).any())


def _column(values: np.ndarray) -> list[float | None]:
    return [_number(value) for value in values.tolist()]


def _number(value: float | None) -> float | None:
    """Five digits, which is what a reader can use; null for what is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")
