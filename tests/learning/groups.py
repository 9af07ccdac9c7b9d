"""Groups with everything that may go wrong: unequal lengths, a masked member, a deep tree, a shared trained prefix."""

from __future__ import annotations

import numpy as np

from burnish.traces import CONTEXT, DEMONSTRATION, ENVIRONMENT, Author, Group, Role, SignalKind, Span, Trace, Verdict
from tests.tiny import VOCAB

POLICY = Author.model("policy", 0)


def rng_tokens(rng: np.random.Generator, count: int) -> np.ndarray:
    return rng.integers(4, VOCAB, size=count)


def make_groups(seed: int = 0, *, masked_tokens: int = 11) -> list[Group]:
    """Five groups: flat samples, multi-turn samples, a branching tree, a masked member, members across traces."""
    rng = np.random.default_rng(seed)
    groups = [
        _flat(rng, "flat", [3, 9, 1, 6]),
        _turns(rng),
        _branching(rng),
        _flat(rng, "masked", [4, masked_tokens, 7]),
        _interleaved(rng),
    ]
    groups[3].members[1].masked = True
    for group in groups:
        for member in group.members:
            member.verdict = member.verdict or Verdict(float(rng.normal()))
    return groups


def _answer(rng: np.random.Generator, trace: Trace, parent: int, count: int, author: Author = POLICY) -> int:
    logprobs = -rng.uniform(0.5, 4.0, size=count)
    return trace.add(parent, rng_tokens(rng, count), author, Role.ANSWER, logprobs)


def _flat(rng: np.random.Generator, key: str, lengths: list[int]) -> Group:
    trace = Trace(key)
    root = trace.add(-1, rng_tokens(rng, 7), CONTEXT, Role.PROMPT)
    return Group(key, [Span(trace, _answer(rng, trace, root, n)) for n in lengths])


def _interleaved(rng: np.random.Generator) -> Group:
    """Members that alternate between two traces, one of which has two roots."""
    one, two = _flat(rng, "one", [5, 2]), _flat(rng, "two", [4, 8])
    trace = two.members[0].trace
    root = trace.add(-1, rng_tokens(rng, 3), CONTEXT, Role.PROMPT)
    third = Span(trace, _answer(rng, trace, root, 6))
    return Group("interleaved", [one.members[0], two.members[0], third, one.members[1], two.members[1]])


def _turns(rng: np.random.Generator) -> Group:
    trace = Trace("turns")
    root = trace.add(-1, rng_tokens(rng, 5), CONTEXT, Role.PROMPT)
    members = []
    for first, second in ((4, 3), (2, 8)):
        call = _answer(rng, trace, root, first)
        observation = trace.add(call, rng_tokens(rng, 6), ENVIRONMENT, Role.OBSERVATION)
        members.append(Span(trace, _answer(rng, trace, observation, second)))
    return Group("turns", members)


def _branching(rng: np.random.Generator) -> Group:
    """Two continuations of one sampled stem: the stem is trained once."""
    trace = Trace("branching")
    root = trace.add(-1, rng_tokens(rng, 6), CONTEXT, Role.PROMPT)
    stem = _answer(rng, trace, root, 5)
    return Group("branching", [Span(trace, _answer(rng, trace, stem, n)) for n in (2, 4, 3)])


def demonstrations(seed: int = 0, lengths: tuple[int, ...] = (5, 2, 11)) -> list[Group]:
    """Prompt and demonstration pairs, one group each, with cross-entropy weights."""
    rng = np.random.default_rng(seed)
    groups = []
    for index, count in enumerate(lengths):
        trace = Trace(f"demonstration-{index}")
        root = trace.add(-1, rng_tokens(rng, 4 + index), CONTEXT, Role.PROMPT)
        leaf = trace.add(root, rng_tokens(rng, count), DEMONSTRATION, Role.ANSWER)
        trace.write(leaf, "ce_weight", rng.uniform(0.5, 2.0, size=count), SignalKind.WEIGHT)
        groups.append(Group(trace.id, [Span(trace, leaf)]))
    return groups
