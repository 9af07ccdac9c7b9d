"""What an update will hold is told before it runs, and it holds that: tensors counted one by one, no allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from burnish.learning.learner import Learner
from burnish.learning.memory import Wanted, optimizer_bytes, optimizer_held, training_bytes, update_memory
from burnish.learning.optimizers import make_optimizer
from burnish.learning.spec import LearnerSpec, OptimizerName, OptimizerSpec
from burnish.losses.build import build as build_term
from burnish.losses.spec import CrossEntropySpec, EntropySpec, PolicyGradientSpec
from burnish.losses.term import Need, Term, TermValues, TokenView
from burnish.models.adapters import attach_adapter
from burnish.models.footprint import Activations
from burnish.models.language_model import LanguageModel
from burnish.models.spec import LoraSpec
from burnish.traces import CONTEXT, DEMONSTRATION, Author, Group, Role, SignalKind, Span, Trace
from tests.tiny import tiny_network

_VOCAB = 3000


def model_of(*, adapter: bool = False, dtype: torch.dtype = torch.float32, **config: Any) -> LanguageModel:
    network = tiny_network("llama", dtype=dtype, vocab=_VOCAB, overrides={"num_hidden_layers": 6, **config})
    return LanguageModel(attach_adapter(network, LoraSpec(rank=4)) if adapter else network, compute_dtype=dtype)


def shown(count: int, length: int) -> list[Group]:
    """Groups of one demonstration each, with the signal of cross-entropy."""
    groups = []
    for index in range(count):
        trace = Trace(str(index))
        root = trace.add(-1, np.arange(10), CONTEXT, Role.PROMPT)
        leaf = trace.add(root, np.arange(length) % _VOCAB, DEMONSTRATION, Role.ANSWER)
        trace.write(leaf, "ce_weight", np.ones(length), SignalKind.WEIGHT)
        groups.append(Group(trace.id, [Span(trace, leaf)]))
    return groups


def sampled(count: int, n: int, length: int) -> list[Group]:
    """Groups of n samples of a prompt, with advantages."""
    groups = []
    for index in range(count):
        trace, members = Trace(str(index)), []
        root = trace.add(-1, np.arange(20), CONTEXT, Role.PROMPT)
        for _ in range(n):
            leaf = trace.add(root, np.arange(length), Author.model("policy", 0), Role.ANSWER, np.full(length, -1.0))
            trace.write(leaf, "advantage", np.ones(length), SignalKind.POLICY, learner="policy")
            members.append(Span(trace, leaf))
        groups.append(Group(trace.id, members))
    return groups


def live_peak(work: Callable[[], Any]) -> int:
    """Bytes of tensors that were alive at once on top of those before, told by torch's own allocator."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as told:
        work()
    events = [e for e in told.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


_CASES: dict[str, dict[str, Any]] = {
    "all weights": {},
    "tied embeddings": {"tie_word_embeddings": True},
    "an adapter": {"adapter": True},
    "recomputed layers": {"layout": LearnerSpec(gradient_checkpointing=True)},
    "our own head": {"layout": LearnerSpec(head="chunked")},
    "tied to our own head": {"layout": LearnerSpec(head="chunked"), "tie_word_embeddings": True},
    "our own head, recomputed layers": {"layout": LearnerSpec(head="chunked", gradient_checkpointing=True)},
    "several micro-batches": {"layout": LearnerSpec(micro_batch_tokens=200)},
    "float64": {"dtype": torch.float64},
    "float32 masters": {"dtype": torch.bfloat16},
}


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("samples", [False, True])
def test_an_update_holds_at_its_peak_what_was_told(case: str, samples: bool) -> None:
    settings = dict(_CASES[case])
    layout = settings.pop("layout", LearnerSpec())
    learner = Learner(model_of(**settings), layout=layout, total_steps=5)
    groups = sampled(3, 4, 30) if samples else shown(4, 90)
    terms = [build_term(PolicyGradientSpec() if samples else CrossEntropySpec())]
    needs: frozenset[Need] = terms[0].needs
    learner.update(groups, terms)  # the optimizer's state is there
    told = update_memory(learner, groups, Wanted(needs), Activations.of(learner.model), again=True)
    assert told.optimizer == 0
    expected = told.total - told.holes
    assert live_peak(lambda: learner.update(groups, terms)) == pytest.approx(expected, rel=0.1)


_AT_WORK = [
    *((name, torch.float32, False) for name in get_args(OptimizerName)),
    ("adamw", torch.bfloat16, False), ("adamw", torch.float32, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "tied"), _AT_WORK)
def test_of_few_tokens_the_gradients_and_the_optimizer_at_work_are_told(
    name: OptimizerName, dtype: torch.dtype, tied: bool
) -> None:
    model = model_of(dtype=dtype, tie_word_embeddings=tied)
    learner = Learner(model, OptimizerSpec(name=name, lr=1e-3), total_steps=5)
    groups, terms = shown(1, 2), [build_term(CrossEntropySpec())]
    learner.update(groups, terms)
    told = update_memory(learner, groups, Wanted(), Activations.of(learner.model), again=True)
    assert told.gradients == sum(p.numel() * p.element_size() for p in learner.masters.parameters.values())
    assert live_peak(lambda: learner.update(groups, terms)) == pytest.approx(told.total - told.holes, rel=0.05)


def test_beside_a_large_projection_in_low_precision_its_sum_in_float32_is_told() -> None:
    learner = Learner(model_of(dtype=torch.bfloat16, tie_word_embeddings=True), total_steps=5)
    groups, terms = shown(1, 2), [build_term(CrossEntropySpec())]
    learner.update(groups, terms)
    told = update_memory(learner, groups, Wanted(), Activations.of(learner.model), again=True)
    assert told.logits > 3 * learner.masters.parameters["model.embed_tokens.weight"].nbytes // 2
    assert live_peak(lambda: learner.update(groups, terms)) == pytest.approx(told.total - told.holes, rel=0.05)


def of_a_token(view: TokenView) -> TermValues:
    return TermValues(sum(view.statistics.values()))  # type: ignore[arg-type]


def of_the_step(view: TokenView) -> TermValues:
    values = of_a_token(view).values
    return TermValues(values * values.mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("budget", [1 << 20, 200], ids=["one micro-batch", "several"])
@pytest.mark.parametrize("case", ["wide", "wide, tempered, both", "both", "tempered, both"])
def test_a_term_beyond_the_token_and_two_distributions_are_told(case: str, budget: int, dtype: torch.dtype) -> None:
    learner = Learner(model_of(dtype=dtype), layout=LearnerSpec(micro_batch_tokens=budget), total_steps=5)
    groups = sampled(3, 4, 30)
    needs: frozenset[Need] = frozenset({"policy_logprob", *(["logprob"] if "both" in case else [])})
    if "tempered" in case:
        for group in groups:
            for node in group.traces[0].nodes[1:]:
                node.meta["temperature"] = 0.7
    how: dict[str, Any] = {"scope": "step", "function": of_the_step} if "wide" in case else {"function": of_a_token}
    terms = [Term("sums", "advantage", needs=needs, **how)]
    wanted = Wanted(needs, tempered="tempered" in case, wide="wide" in case)
    learner.update(groups, terms)
    told = update_memory(learner, groups, wanted, Activations.of(learner.model), again=True)
    assert live_peak(lambda: learner.update(groups, terms)) == pytest.approx(told.total - told.holes, rel=0.1)


def test_entropy_and_a_kept_support_take_masks_on_top() -> None:
    learner = Learner(model_of(adapter=True), layout=LearnerSpec(head="chunked"), total_steps=5)
    groups, kept = sampled(2, 4, 30), Activations.of(learner.model)
    plain = update_memory(learner, groups, Wanted(frozenset({"policy_logprob"})), kept, again=False)
    terms = [build_term(PolicyGradientSpec()), build_term(EntropySpec())]
    wanted = Wanted(frozenset({"policy_logprob", "policy_entropy"}))
    told = update_memory(learner, groups, wanted, kept, again=True)
    assert told.logits == pytest.approx(plain.logits * 5.25 / 5, rel=1e-6)
    learner.update(groups, terms)
    told = update_memory(learner, groups, wanted, kept, again=True)
    assert live_peak(lambda: learner.update(groups, terms)) == pytest.approx(told.total - told.holes, rel=0.1)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("name", get_args(OptimizerName))
def test_the_state_of_every_optimizer_is_told_to_the_byte(name: OptimizerName, momentum: float) -> None:
    if momentum and name not in ("sgd", "rmsprop"):
        momentum = 0.0
    spec = OptimizerSpec(name=name, lr=1e-3, momentum=momentum)
    parameters = [torch.randn(6, 8), torch.randn(5), torch.randn(2, 3, 4)]
    optimizer = make_optimizer(spec, parameters, 1e-3)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    state = [v for entries in optimizer.state.values() for v in entries.values() if isinstance(v, torch.Tensor)]
    sizes = sum(t.numel() * t.element_size() for t in state if t.dim())  # step counts apart
    assert optimizer_bytes(spec, parameters) == sizes


def test_the_state_that_a_resumed_run_has_already_is_not_counted_as_still_to_come() -> None:
    learner = Learner(model_of(), total_steps=5)
    groups, terms = shown(2, 20), [build_term(CrossEntropySpec())]
    kept = Activations.of(learner.model)
    before = update_memory(learner, groups, Wanted(), kept, again=True).optimizer
    assert optimizer_held(learner) == 0 < before
    learner.update(groups, terms)
    assert update_memory(learner, groups, Wanted(), kept, again=True).optimizer == 0
    assert optimizer_held(learner) == pytest.approx(before, rel=0.01)


def test_training_beside_a_low_precision_copy_counts_masters_too() -> None:
    weights = [torch.zeros(10, 10, dtype=torch.bfloat16), torch.zeros(7)]
    assert training_bytes(OptimizerSpec(), weights) == 100 * (2 + 4 * 4) + 7 * 4 * 4
    assert training_bytes(OptimizerSpec(name="sgd"), weights) == 100 * (2 + 2 * 4) + 7 * 2 * 4
