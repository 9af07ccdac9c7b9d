"""Names of the signals that annotators write and losses read. No torch here."""

from __future__ import annotations

SAMPLER_LOGPROB = "sampler_logprob"
"""Behaviour policy: the log-probability stored with each sampled token."""

OLD_LOGPROB = "old_logprob"
"""Proximal policy: the learner's own log-probability at the start of an update."""

SEGMENT = "segment"
"""Which segment of its path a sampled token is in, counted from 0."""

TOP_IDS, TOP_LOGPROBS = "top_ids", "top_logprobs"
"""The k most probable tokens of the sampler at each sampled token, and their log-probabilities there, [T, k]."""

ABSENT = -1e30
"""Log-probability in `top_logprobs` that stands where the sampler's distribution had fewer than k tokens."""

CORRECTION = "correction"
"""Weight of the proximal over the behaviour policy."""


def reference_top_signal(model: str) -> str:
    """Name of the signal that holds a frozen model's log-probabilities of the tokens in `top_ids`, [T, k]."""
    return f"{model}_top_logprobs"


def reference_signal(model: str) -> str:
    """Name of the signal that holds a frozen model's log-probabilities of the sampled tokens."""
    return f"{model}_logprob"
