"""E1: the gradient does not depend on micro-batch size, packing or prefix sharing, for terms of every scope."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.objective import Objective
from burnish.learning.spec import LearnerSpec
from burnish.losses import build as losses
from burnish.losses.spec import CrossEntropySpec, EntropySpec, PolicyGradientSpec, Reduction
from burnish.losses.term import Term, TermValues, TokenView
from burnish.models.language_model import LanguageModel
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec
from burnish.traces import Group, Node
from tests.learning.groups import demonstrations, make_groups
from tests.tiny import tiny_model

REDUCTIONS: tuple[Reduction, ...] = ("token_mean", "sequence_mean", "sequence_sum", "group_mean", "constant")
LIMIT = {torch.float64: 1e-10, torch.float32: 1e-5}
Gradients = dict[str, torch.Tensor]


def sequence_ratio_term() -> Term:
    """A sequence-scope toy term: the clipped geometric-mean ratio of each sequence (GSPO's shape)."""

    def values(view: TokenView) -> TermValues:
        token, sequence = (torch.from_numpy(a) for a in (view.incidence.token, view.incidence.sequence))
        share = torch.from_numpy(view.incidence.shares())
        gap = (view["policy_logprob"] - view["sampler_logprob"]).double()
        count = int(sequence.max()) + 1
        length = torch.zeros(count, dtype=torch.float64).index_add(0, sequence, share)
        mean = torch.zeros(count, dtype=torch.float64).index_add(0, sequence, share * gap[token]) / length.clamp(min=1)
        ratio = torch.exp(mean).clamp(0.3, 3.0)
        per_token = torch.zeros(view.incidence.tokens, dtype=torch.float64).index_add(0, token, share * ratio[sequence])
        return TermValues(-(per_token * view["advantage"]).to(view["policy_logprob"].dtype))

    return Term(
        "sequence_ratio", "advantage", values, frozenset({"policy_logprob"}), ("sampler_logprob",), scope="sequence"
    )


def annotated() -> list[Group]:
    groups = make_groups()
    build_annotator(GroupAdvantageSpec(estimator="grpo"))(groups)
    return groups + demonstrations()


def terms_for(reduction: Reduction, wide: bool) -> list[Term]:
    constant = 9.0 if reduction == "constant" else None
    terms = [
        losses.build(PolicyGradientSpec(reduction=reduction, constant=constant, clip_low=0.9, clip_high=40)),
        losses.build(EntropySpec(coefficient=0.3, reduction=reduction, constant=constant)),
        losses.build(CrossEntropySpec(coefficient=0.5)),
    ]
    return [*terms, sequence_ratio_term()] if wide else terms


@cache
def shared_model(architecture: str, dtype: torch.dtype) -> LanguageModel:
    return tiny_model(architecture, dtype=dtype)


def gradients(dtype: torch.dtype, terms: list[Term], layout: LearnerSpec, architecture: str = "qwen2") -> Gradients:
    learner = Learner(shared_model(architecture, dtype), layout=layout)
    return learner.gradients(annotated(), terms)


def distance(ours: Gradients, reference: Gradients) -> float:
    """Largest over tensors of the norm of the difference, over the norm of the reference."""
    assert ours.keys() == reference.keys() and ours
    return max(float((ours[n] - reference[n]).norm() / reference[n].norm().clamp(min=1e-30)) for n in reference)


LAYOUTS = [
    LearnerSpec(micro_batch_tokens=tokens, packing=packing, share_prefixes=share)
    for tokens, packing, share in ((1, True, True), (25, True, True), (25, True, False), (60, False, True))
]


@pytest.mark.parametrize("wide", [False, True], ids=["token-scope", "sequence-scope"])
@pytest.mark.parametrize(
    ("dtype", "reduction"),
    [*((torch.float64, r) for r in REDUCTIONS), (torch.float32, "token_mean"), (torch.float32, "sequence_mean")],
    ids=str,
)
def test_e1_gradient_is_independent_of_the_layout(dtype: torch.dtype, wide: bool, reduction: Reduction) -> None:
    terms = terms_for(reduction, wide)
    reference = gradients(dtype, terms, LearnerSpec(micro_batch_tokens=100_000))
    assert all(float(g.norm()) > 0 for g in reference.values())
    for layout in LAYOUTS:
        assert distance(gradients(dtype, terms, layout), reference) < LIMIT[dtype], layout


@pytest.mark.parametrize("architecture", ["gemma2", "gpt2", "qwen3_moe", "mamba", "qwen3_next"])
def test_e1_on_other_attention_and_on_the_plain_path(architecture: str) -> None:
    terms = terms_for("sequence_mean", wide=True)
    reference = gradients(torch.float64, terms, LearnerSpec(micro_batch_tokens=100_000), architecture)
    for tokens in (1, 40):
        layout = LearnerSpec(micro_batch_tokens=tokens)
        assert distance(gradients(torch.float64, terms, layout, architecture), reference) < 1e-10


def test_e1_is_broken_by_local_denominators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above can fail: a build that counts denominators in each micro-batch is told apart at once."""
    whole = Objective.loss

    def local(self: Objective, statistics: dict[str, torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
        return whole(self, statistics, tokens) * len(self.step) / len(tokens)

    terms = terms_for("token_mean", wide=False)
    reference = gradients(torch.float64, terms, LearnerSpec(micro_batch_tokens=100_000))
    monkeypatch.setattr(Objective, "loss", local)
    assert distance(gradients(torch.float64, terms, LearnerSpec(micro_batch_tokens=25)), reference) > 1e-2


def test_gradient_checkpointing_changes_nothing() -> None:
    terms = terms_for("token_mean", wide=False)
    plain = gradients(torch.float64, terms, LearnerSpec(micro_batch_tokens=60), "llama")
    recomputed = gradients(
        torch.float64, terms, LearnerSpec(micro_batch_tokens=60, gradient_checkpointing=True), "llama"
    )
    assert distance(recomputed, plain) < 1e-12


def test_masked_tokens_change_nothing_when_perturbed() -> None:
    """A masked member's tokens, and how many there are, reach neither the loss nor the gradient."""
    terms = terms_for("token_mean", wide=True)
    reference = gradients(torch.float64, terms, LearnerSpec())
    groups = annotated()
    masked = next(m for g in groups for m in g.members if m.masked)
    node = masked.trace.nodes[masked.leaf]
    longer = (np.concatenate([node.tokens, node.tokens]) + 5) % 90
    masked.trace.nodes[masked.leaf] = Node(
        node.parent, longer, np.tile(node.authors, 2), np.tile(node.roles, 2), np.tile(node.logprobs, 2) - 1
    )
    again = Learner(shared_model("qwen2", torch.float64)).gradients(groups, terms)
    assert all(torch.equal(again[n], reference[n]) for n in reference)
