"""What a member is worth to a learner: its verdict's reward, with what shapes it for the actor alone.

The verdict is never changed. Shaping terms stand beside it by name, in `verdict.evidence["shaping"]`, so that a critic
learns to predict what was really earned while the actor is also told to be brief.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.signals.credit import sampled_values
from burnish.traces import Group, Span
from burnish.traces.signal_names import SAMPLER_LOGPROB, reference_signal

Floats = npt.NDArray[np.float64]

BASELINE = "greedy"
"""Name of the span that a prompt's greedy answer is: compared with, never trained."""


def actor_reward(span: Span) -> float:
    """The reward with every shaping term; NaN where the member has none or is not counted."""
    if not span.counts:
        return float("nan")
    shaping = span.verdict.evidence.get("shaping", {}) if span.verdict is not None else {}
    return span.reward + float(sum(shaping.values()))


def critic_reward(span: Span) -> float:
    """The reward alone; NaN where the member has none or is not counted."""
    return span.reward if span.counts else float("nan")


def members_of(group: Group) -> list[Span]:
    """A group's members, the greedy answer left out."""
    return [m for m in group.members if m.name != BASELINE]


def greedy_reward(group: Group) -> float:
    """What the prompt's greedy answer is worth. Raises InputError where the group has none."""
    found = [m for m in group.members if m.name == BASELINE]
    if not found:
        raise InputError(f"group {group.key!r} has no greedy answer to compare with: its source must sample one")
    return found[0].reward


def flattened(groups: Sequence[Group]) -> Iterator[Group]:
    """Every group and the groups nested in it: each is a unit of credit of its own."""
    for group in groups:
        yield group
        yield from flattened(group.children)


def by_state(groups: Sequence[Group]) -> list[Group]:
    """The turns of each group's attempts, regrouped by the state they began in, whichever attempt came there.

    Turns are the spans of a trace that name their state, or members that do; a turn that nobody judged by itself is
    worth what its attempt is. What names no state is left out (GiGPO, arXiv 2505.10978).
    """
    found: list[Group] = []
    for group in groups:
        states: dict[str, list[Span]] = {}
        members = list({id(m): m for unit in flattened([group]) for m in members_of(unit)}.values())
        for member in members:
            for span in (member, *_turns(member)):
                if span.state_key is not None:
                    states.setdefault(span.state_key, []).append(span)
        found += [Group(f"{group.key}/{state}", spans) for state, spans in states.items()]
    return found


def _turns(member: Span) -> Iterator[Span]:
    """The turns on a member's path, each with the member's verdict where it has none of its own."""
    path = set(member.trace.path(member.leaf))
    for turn in member.trace.spans:
        if turn.leaf in path and turn.state_key is not None:
            verdict = turn.verdict or member.verdict
            masked = turn.masked or member.masked
            yield Span(turn.trace, turn.leaf, turn.name, turn.start, turn.stop, turn.state_key, verdict, masked)


def token_kl(span: Span, learner: str, reference: str) -> Floats:
    """k1 on each token that the learner sampled: log pi of the sampler minus that of the reference, [T].

    Raises InputError where the reference has not scored them.
    """
    own, other = (sampled_values(span, learner, name) for name in (SAMPLER_LOGPROB, reference_signal(reference)))
    if np.isnan(other).any():
        raise InputError(
            f"a KL in the reward needs {reference_signal(reference)!r} on every sampled token: score first"
        )
    return own - other
