"""Traces refuse what is misaligned when it is written (E7 among it), and paths are what the engine saw."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.errors import PromiseError
from burnish.traces import (
    CONTEXT,
    DEMONSTRATION,
    ENVIRONMENT,
    Author,
    AuthorKind,
    Group,
    Relation,
    RelationKind,
    Role,
    SignalKind,
    Span,
    Status,
    Support,
    Trace,
    Verdict,
)

POLICY = Author.model("policy", 3)


def small() -> tuple[Trace, int, int]:
    trace = Trace("t")
    root = trace.add(-1, [1, 2, 3], CONTEXT, Role.PROMPT)
    return trace, root, trace.add(root, [4, 5], POLICY, Role.ANSWER, [-0.5, -1.5])


def test_a_path_is_the_deltas_from_root_to_leaf_and_branches_share_their_prefix() -> None:
    trace, root, leaf = small()
    observation = trace.add(leaf, [6], ENVIRONMENT, Role.OBSERVATION)
    other = trace.add(root, [7, 8, 9], POLICY, Role.ANSWER, [-1.0, -1.0, -1.0])
    assert trace.tokens(observation).tolist() == [1, 2, 3, 4, 5, 6]
    assert trace.tokens(other).tolist() == [1, 2, 3, 7, 8, 9]
    assert trace.leaves() == [observation, other] and trace.children(root) == [leaf, other]
    assert trace.sampled_by(other, "policy").all() and not trace.sampled_by(root, "policy").any()


def test_one_node_may_mix_authors_roles_and_versions() -> None:
    trace = Trace("mixed")
    newer = Author.model("policy", 4)
    node = trace.add(
        -1, [1, 2, 3], [CONTEXT, POLICY, newer], [Role.PROMPT, Role.THOUGHT, Role.ACTION], [np.nan, -1.0, -2.0]
    )
    assert [trace.authors[a].version for a in trace.nodes[node].authors] == [-1, 3, 4]
    assert trace.sampled_by(node, "policy").tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, [1], CONTEXT, Role.PROMPT), "no node 5"),
        ((-1, [-1], CONTEXT, Role.PROMPT), "non-negative"),
        ((-1, [2**31], CONTEXT, Role.PROMPT), "32-bit"),
        ((-1, [1, 2], [CONTEXT], Role.PROMPT), "as many authors"),
        ((-1, [1, 2], CONTEXT, [Role.PROMPT]), "as many authors"),
        ((-1, [1], POLICY, Role.ANSWER), "need their sampling log-probabilities"),
        ((-1, [1, 2], POLICY, Role.ANSWER, [-1.0]), "as many log-probabilities"),
        ((-1, [1], POLICY, Role.ANSWER, [np.nan]), "exactly where a model is the author"),
        ((-1, [1], CONTEXT, Role.PROMPT, [-1.0]), "exactly where a model is the author"),
        ((-1, [1], POLICY, Role.ANSWER, [-np.inf]), "finite"),
        ((-1, [1], POLICY, Role.ANSWER, [0.5]), "at most 0"),
    ],
)
def test_misaligned_nodes_are_refused(arguments: tuple, message: str) -> None:  # type: ignore[type-arg]
    trace = Trace("t")
    with pytest.raises(ValueError, match=message):
        trace.add(*arguments)
    assert not trace.nodes


def test_misaligned_support_is_refused() -> None:
    trace = Trace("t")
    for offsets in ([0, 1], [0, 2, 1], [1, 1, 3], [0, 1, 2]):
        support = Support(np.array(offsets), np.array([4, 5, 6]))
        with pytest.raises(ValueError, match="offsets"):
            trace.add(-1, [1, 2], POLICY, Role.ANSWER, [-1.0, -1.0], support=support)
    with pytest.raises(ValueError, match="outside the support"):
        support = Support(np.array([0, 1, 3]), np.array([4, 6, 7]))
        trace.add(-1, [4, 5], POLICY, Role.ANSWER, [-1.0, -1.0], support=support)
    good = Support(np.array([0, 1, 3]), np.array([4, 5, 6]))
    node = trace.add(-1, [4, 5], POLICY, Role.ANSWER, [-1.0, -1.0], support=good)
    stored = trace.nodes[node].support
    assert stored is not None and stored.at(1).tolist() == [5, 6]


def test_a_trace_does_not_change_when_the_callers_array_does() -> None:
    tokens = np.array([1, 2, 3])
    trace = Trace("t")
    trace.add(-1, tokens, CONTEXT, Role.PROMPT)
    tokens[0] = 99
    assert trace.tokens(0).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        trace.nodes[0].tokens[0] = 99


def test_e7_a_policy_weight_on_a_token_the_learner_did_not_sample_is_refused() -> None:
    trace, root, leaf = small()
    shown = trace.add(root, [7], DEMONSTRATION, Role.ANSWER)
    teacher = trace.add(root, [8], Author.model("teacher", 0), Role.ANSWER, [-1.0])
    for node in (root, shown, teacher):
        weights = np.ones(len(trace.nodes[node]))
        with pytest.raises(PromiseError, match=r"E7.*was not sampled by model 'policy'"):
            trace.write(node, "advantage", weights, SignalKind.POLICY, learner="policy")
        assert not trace.nodes[node].signals
        trace.write(node, "ce_weight", weights, SignalKind.WEIGHT)
    trace.write(root, "advantage", np.full(3, np.nan), SignalKind.POLICY, learner="policy")
    trace.write(leaf, "advantage", [1.0, np.nan], SignalKind.POLICY, learner="policy")
    with pytest.raises(ValueError, match="must name the learner"):
        trace.write(leaf, "advantage", [1.0, 1.0], SignalKind.POLICY)
    wide = np.full((3, 2), np.nan)
    wide[1, 0] = 0.0
    with pytest.raises(PromiseError, match="E7: token 1 of node 0"):
        trace.write(root, "advantage", wide, SignalKind.POLICY, learner="policy", axes=("teacher",))


def test_misaligned_signals_are_refused() -> None:
    trace, _, leaf = small()
    with pytest.raises(ValueError, match=r"needs shape \[2\], got \[3\]"):
        trace.write(leaf, "x", [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"needs shape \[2, teacher\]"):
        trace.write(leaf, "x", [1.0, 2.0], axes=("teacher",))
    with pytest.raises(ValueError, match="infinite"):
        trace.write(leaf, "x", [1.0, np.inf])


def test_authors_keep_their_kind_apart() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        Author(AuthorKind.MODEL, "", 0)
    with pytest.raises(ValueError, match="needs a name and a weight version"):
        Author(AuthorKind.MODEL, "policy")
    with pytest.raises(ValueError, match="only a model has a weight version"):
        Author(AuthorKind.CONTEXT, "", 2)


def test_spans_and_relations_must_lie_where_they_say() -> None:
    trace, root, leaf = small()
    assert Span(trace, leaf).stop == 5
    with pytest.raises(ValueError, match="does not lie on a path of 5 tokens"):
        Span(trace, leaf, start=2, stop=6)
    group = Group("g", [Span(trace, leaf), Span(trace, root)])
    group.relate(Relation(0, 1, RelationKind.CHOSEN, margin=0.5))
    with pytest.raises(ValueError, match="none numbered 2"):
        group.relate(Relation(0, 2))
    with pytest.raises(ValueError, match="related to itself"):
        group.relate(Relation(1, 1))
    assert group.traces == [trace]


def test_e8_a_missing_reward_has_a_reason_and_a_machinery_failure_has_no_reward() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Verdict(None)
    with pytest.raises(ValueError, match="carries no reward"):
        Verdict(0.0, Status.INFRA_ERROR)
    with pytest.raises(ValueError, match="finite"):
        Verdict(float("nan"))
    trace, _, leaf = small()
    lost = Span(trace, leaf, verdict=Verdict.missing(Status.VERIFIER_ERROR, "it crashed"))
    failed = Span(trace, leaf, verdict=Verdict(0.0, Status.TIME_LIMIT))
    group = Group("g", [lost, failed])
    assert np.isnan(group.rewards[0]) and group.rewards[1] == 0
    assert not lost.counts and failed.counts
