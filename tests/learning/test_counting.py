"""What the learner and the scorer count: against torch's own counter, and against numbers worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from torch.utils.flop_counter import FlopCounterMode

from burnish.learning.learner import Learner
from burnish.learning.scoring import score
from burnish.learning.spec import LearnerSpec
from burnish.ledger import Ledger
from burnish.losses.build import build
from burnish.losses.spec import CrossEntropySpec, PolicyGradientSpec
from burnish.losses.term import Term
from burnish.models.language_model import LanguageModel
from burnish.traces import Group, SignalKind
from tests.learning.groups import demonstrations, make_groups
from tests.learning.test_e1 import annotated, sequence_ratio_term
from tests.tiny import tiny_model

HIDDEN, VOCABULARY, LAYERS, WIDTH = 32, 97, 2, 32  # of the tiny llama
PARAMETERS = LAYERS * (2 * HIDDEN * 32 + 2 * HIDDEN * 16 + 3 * HIDDEN * 48)
SAMPLED = (3 + 9 + 1 + 6) + (4 + 3 + 2 + 8) + (5 + 2 + 4 + 3) + (4 + 7) + (5 + 4 + 6 + 2 + 8)
"""Sampled tokens of `make_groups`: the shared stem of 5 once, the masked member's 11 not at all."""
POLICY = [build(PolicyGradientSpec())]


def without_attention(architecture: str) -> LanguageModel:
    """A model of which the products with weights are counted alone: torch counts those on every path."""
    model = tiny_model(architecture)
    model.attention_shapes = ()
    return model


def products(counter: FlopCounterMode) -> int:
    of = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
    return of["aten.mm"] + of.get("aten.addmm", 0)


def updated(
    model: LanguageModel, groups: Sequence[Group], terms: Sequence[Term], layout: LearnerSpec
) -> tuple[int, int, int]:
    """Operations counted, products that torch counts, tokens trained."""
    ledger = Ledger()
    learner = Learner(model, None, layout, ledger=ledger)
    with FlopCounterMode(display=False) as counter:
        learner.update(groups, terms)
    assert ledger.to_json().keys() == {"policy"} and ledger.total("policy", "seconds") > 0
    return int(ledger.total("policy", "flops")), products(counter), int(ledger.total("policy", "trained_tokens"))


LAYOUTS = {
    "shared": LearnerSpec(head="chunked"),
    "cut": LearnerSpec(head="chunked", micro_batch_tokens=16),
    "apart": LearnerSpec(head="chunked", share_prefixes=False, packing=False),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3_moe"])
def test_an_update_counts_what_torch_counts_but_the_heads_second_projection(architecture: str, layout: str) -> None:
    """The lean head projects each trained token again on the way back: recomputation, which is not counted."""
    flops, torchs, trained = updated(without_attention(architecture), annotated(), POLICY, LAYOUTS[layout])
    assert flops == torchs - 2 * HIDDEN * VOCABULARY * trained
    assert trained == SAMPLED


def test_the_count_does_not_depend_on_how_the_head_computes() -> None:
    """torch's counter does not look into its own fused operation, so there is nothing else to compare with."""
    counted = [
        updated(tiny_model("llama"), annotated(), POLICY, LearnerSpec(head=path)) for path in ("chunked", "fused")
    ]
    assert counted[0][0] == counted[1][0] and counted[0][1] > counted[1][1]


def test_layers_that_are_recomputed_count_once() -> None:
    plain = updated(tiny_model("llama"), annotated(), POLICY, LearnerSpec())
    recomputed = updated(tiny_model("llama"), annotated(), POLICY, LearnerSpec(gradient_checkpointing=True))
    assert recomputed[0] == plain[0] and recomputed[1] > plain[1]


def test_the_scoring_pass_of_a_wide_term_is_recomputation() -> None:
    flops, torchs, trained = updated(without_attention("llama"), annotated(), [sequence_ratio_term()], LAYOUTS["cut"])
    again = 2 * HIDDEN * VOCABULARY * trained  # of the lean head
    scored = flops // 3  # a backward pass is twice a forward pass where everything learns
    assert flops % 3 == 0 and torchs == flops + again + scored


def test_terms_under_two_distributions_project_twice() -> None:
    groups = make_groups()[:1]
    for member in groups[0].members:
        node = member.trace.nodes[member.leaf]
        node.meta["temperature"] = 0.7
        member.trace.write(member.leaf, "advantage", [1.0] * len(node), SignalKind.POLICY, learner="policy")
        member.trace.write(member.leaf, "ce_weight", [1.0] * len(node), SignalKind.WEIGHT)
    terms = [*POLICY, build(CrossEntropySpec())]
    layout = LearnerSpec(head="chunked")
    flops, torchs, trained = updated(without_attention("llama"), groups, terms, layout)
    once, _, _ = updated(without_attention("llama"), groups, POLICY, layout)
    head = 2 * HIDDEN * VOCABULARY * trained
    assert flops == once + 3 * head and torchs == flops + 2 * head


def test_supervised_training_equals_the_closed_form() -> None:
    """Prompts of 4, 5 and 6 tokens with 5, 2 and 11 to learn: 6 operations a parameter and token, attention by hand."""
    flops, _, trained = updated(tiny_model("llama"), demonstrations(), [build(CrossEntropySpec())], LearnerSpec())
    lengths, learnt = [4 + 5, 5 + 2, 6 + 11], 5 + 2 + 11
    pairs = sum(n * (n + 1) // 2 for n in lengths)
    assert trained == learnt
    assert flops == 6 * PARAMETERS * sum(lengths) + 12 * LAYERS * WIDTH * pairs + 6 * HIDDEN * VOCABULARY * learnt


def test_a_shared_prompt_counts_once_and_is_seen_by_every_sample() -> None:
    """The group has a prompt of 7 tokens and samples of 3, 9, 1 and 6."""
    ledger = Ledger()
    score(tiny_model("llama"), make_groups()[:1], ledger=ledger, role="reference")
    pairs = 7 * 8 // 2 + sum(sum(range(8, 8 + n)) for n in (3, 9, 1, 6))
    tokens, scored = 7 + 3 + 9 + 1 + 6, 3 + 9 + 1 + 6
    assert ledger.total("reference", "scored_tokens") == scored
    assert ledger.total("reference", "flops") == (
        2 * PARAMETERS * tokens + 4 * LAYERS * WIDTH * pairs + 2 * HIDDEN * VOCABULARY * scored
    )
    assert ledger.to_json().keys() == {"reference"} and ledger.total("reference", "seconds") > 0


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scoring_counts_what_torch_counts(layout: str) -> None:
    model, ledger = without_attention("llama"), Ledger()
    with FlopCounterMode(display=False) as counter:
        score(model, annotated(), layout=LAYOUTS[layout], ledger=ledger)
    assert ledger.total("policy", "flops") == products(counter)


def test_passes_add_up_and_a_gradient_that_is_only_looked_at_trains_nothing() -> None:
    ledger = Ledger()
    learner = Learner(tiny_model("llama"), ledger=ledger)
    learner.gradients(annotated(), POLICY)
    once = ledger.total("policy", "flops")
    assert once > 0 and ledger.total("policy", "trained_tokens") == 0
    metrics = [learner.update(annotated(), POLICY) for _ in range(2)]
    assert ledger.total("policy", "trained_tokens") == sum(m["trained_tokens"] for m in metrics)
    assert ledger.total("policy", "flops") == 3 * once
