"""The learner against naive references: plain autograd over the unmodified model's own logits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from burnish.errors import InputError, PromiseError, RunError
from burnish.learning.learner import Learner
from burnish.learning.scoring import score
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.losses.build import build
from burnish.losses.spec import CrossEntropySpec, EntropySpec, PolicyGradientSpec, ReferenceKlSpec
from burnish.models.language_model import LanguageModel
from burnish.sampling import LocalEngine, SamplingParams
from burnish.signals.annotators import build as build_annotator
from burnish.signals.spec import GroupAdvantageSpec
from burnish.traces import CONTEXT, Author, Group, Role, SignalKind, Span, Trace, Verdict
from tests.learning.groups import demonstrations, make_groups
from tests.tiny import tiny_model, tiny_network


def sample_groups(model: LanguageModel, params: SamplingParams, prompts: int = 3, n: int = 4) -> list[Group]:
    """Groups sampled by the engine, with random rewards."""
    engine = LocalEngine(model)
    rng = np.random.default_rng(0)
    groups = []
    for task in range(prompts):
        trace = Trace(f"task-{task}")
        prompt = rng.integers(4, 90, size=5 + task)
        root = trace.add(-1, prompt, CONTEXT, Role.PROMPT)
        members = []
        for completion in engine.sample_sync(prompt.tolist(), params, n=n, seed=1, task=task):
            authors = [Author.model(model.name, int(v)) for v in completion.versions]
            temperature = 0.0 if completion.greedy else params.temperature
            leaf = trace.add(root, completion.tokens, authors, Role.ANSWER, completion.logprobs,
                             support=completion.support, meta={"temperature": temperature})  # fmt: skip
            members.append(Span(trace, leaf, verdict=Verdict(float(rng.normal()))))
        groups.append(Group(trace.id, members))
    build_annotator(GroupAdvantageSpec(estimator="grpo"))(groups)
    return groups


def padded_logprobs(network, span: Span) -> Tensor:  # type: ignore[no-untyped-def]
    """Log-probabilities of a sample's answer tokens from the unmodified model's logits."""
    tokens = torch.from_numpy(span.trace.tokens(span.leaf).astype(np.int64))
    answer = len(span.trace.nodes[span.leaf])
    logits = network(input_ids=tokens[None]).logits[0, -answer - 1 : -1].double()
    return torch.log_softmax(logits, -1).gather(1, tokens[-answer:, None])[:, 0]


def assert_gradients_equal(ours: dict[str, Tensor], network, limit: float) -> None:  # type: ignore[no-untyped-def]
    """Per tensor, the norm of the difference over the norm."""
    theirs = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
    assert ours.keys() == theirs.keys() and ours
    for name, gradient in ours.items():
        assert float((gradient - theirs[name]).norm() / theirs[name].norm()) < limit, name  # type: ignore[operator, union-attr]


def test_on_policy_grpo_step_equals_reinforce_with_a_group_baseline() -> None:
    model = tiny_model("llama", dtype=torch.float64)
    groups = sample_groups(model, SamplingParams(max_tokens=6, stop_ids=frozenset({2})))
    ours = Learner(model).gradients(groups, [build(PolicyGradientSpec())])
    network = tiny_network("llama", dtype=torch.float64)
    members = [(g, m, a) for g in groups for m, a in zip(g.members, g.rewards - g.rewards.mean(), strict=True)]
    tokens = sum(len(m.trace.nodes[m.leaf]) for _, m, _ in members)
    for group, member, advantage in members:
        scale = float(advantage) / (group.rewards.std(ddof=1) + 1e-6) / tokens
        (-scale * padded_logprobs(network, member).sum()).backward()
    # the ratio is 1 up to the float32 rounding of the stored sampling log-probabilities
    assert_gradients_equal(ours, network, limit=1e-5)


def test_sft_gradient_and_loss_equal_the_models_own_loss() -> None:
    groups = demonstrations()
    learner = Learner(tiny_model("qwen3", dtype=torch.float64), OptimizerSpec(name="sgd", lr=1e-3, clip_norm=None))
    network = tiny_network("qwen3", dtype=torch.float64)
    losses, weights = [], []
    for group in groups:
        [member] = group.members
        weight = member.trace.nodes[member.leaf].signals["ce_weight"].values
        losses.append(-(torch.from_numpy(weight) * padded_logprobs(network, member)).sum())
        weights.append(weight.sum())
    loss = torch.stack(losses).sum() / sum(weights)
    loss.backward()
    assert_gradients_equal(learner.gradients(groups, [build(CrossEntropySpec())]), network, limit=1e-6)
    metrics = learner.update(groups, [build(CrossEntropySpec())])
    assert metrics["loss"] == pytest.approx(float(loss), rel=1e-6)
    assert metrics["trained_tokens"] == 18 and metrics["optimizer_steps"] == 1
    assert metrics["grad_norm"] == pytest.approx(
        math.sqrt(sum(float((p.grad**2).sum()) for p in network.parameters() if p.grad is not None)), rel=1e-6
    )
    for (name, ours), (_, theirs) in zip(
        learner.model.network.named_parameters(), network.named_parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs - 1e-3 * theirs.grad, rtol=1e-6, atol=1e-9, msg=name)  # type: ignore[operator]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(max_tokens=6, temperature=0.7),
        SamplingParams(max_tokens=6, top_k=5),
        SamplingParams(max_tokens=6, top_p=0.6),
        SamplingParams(max_tokens=6, min_p=0.2),
        SamplingParams(max_tokens=6, temperature=1.4, top_k=20, top_p=0.9, min_p=0.02),
    ],
    ids=str,
)
def test_the_learner_evaluates_the_distribution_that_was_sampled_from(params: SamplingParams) -> None:
    model = tiny_model("gemma2")
    groups = sample_groups(model, params)
    scored = score(model, groups, ("policy_logprob", "policy_entropy"))
    assert len(scored.tokens) == sum(len(m.trace.nodes[m.leaf]) for g in groups for m in g.members)
    assert float(np.abs(scored.sampler_gap).max()) < 1e-4
    assert (scored.values["policy_entropy"] >= -1e-6).all()
    plain = score(model, groups, ("logprob",)).values["logprob"]
    assert float(np.abs(plain - scored.values["policy_logprob"]).max()) > 1e-2
    metrics = Learner(model, OptimizerSpec(lr=1e-9)).update(groups, [build(PolicyGradientSpec())])
    assert metrics["sampler_gap"] < 1e-5 and metrics["clipped_share"] == 0


def test_a_ratio_on_greedy_tokens_is_refused() -> None:
    model = tiny_model("llama")
    groups = sample_groups(model, SamplingParams(max_tokens=4, temperature=0.0))
    with pytest.raises(PromiseError, match="chosen greedily"):
        Learner(model).update(groups, [build(PolicyGradientSpec())])
    assert float(np.abs(score(model, groups).sampler_gap).max()) < 1e-4


def test_reference_kl_and_entropy_terms_equal_their_formulas() -> None:
    model = tiny_model("llama", dtype=torch.float64)
    groups = sample_groups(model, SamplingParams(max_tokens=5))
    other = tiny_model("llama", seed=3, dtype=torch.float64, name="reference")
    score(other, groups).write("reference_logprob")
    terms = [build(ReferenceKlSpec(coefficient=0.5, estimator="k2")), build(EntropySpec(coefficient=0.25))]
    metrics = Learner(model, OptimizerSpec(lr=1e-9)).update(groups, terms)
    members = [m for g in groups for m in g.members]
    ours = torch.cat([padded_logprobs(tiny_network("llama", dtype=torch.float64), m) for m in members])
    theirs = torch.cat([padded_logprobs(tiny_network("llama", seed=3, dtype=torch.float64), m) for m in members])
    d = (ours - theirs).detach()
    assert metrics["loss/reference_kl"] == pytest.approx(0.5 * float((d**2 / 2).mean()), rel=1e-6)
    assert metrics["reference_kl"] == pytest.approx(float((torch.exp(-d) + d - 1).mean()), rel=1e-6)
    entropies = score(model, groups, ("policy_entropy",)).values["policy_entropy"]
    assert metrics["loss/entropy"] == pytest.approx(-0.25 * entropies.mean(), rel=1e-4)


@pytest.mark.parametrize("wrong", ["kind", "author", "stream"])
def test_e7_holds_where_tokens_are_gathered_whoever_wrote_the_signal(wrong: str) -> None:
    trace = Trace("t")
    root = trace.add(-1, [5, 6], CONTEXT, Role.PROMPT)
    leaf = trace.add(root, [7, 8], Author.model("teacher", 0), Role.ANSWER, [-1.0, -1.0])
    group = Group("g", [Span(trace, leaf, verdict=Verdict(1.0))])
    spec = PolicyGradientSpec(stream="ce_weight" if wrong == "stream" else "advantage")
    if wrong == "author":  # the right kind, written for another learner
        trace.write(leaf, "advantage", [1.0, 1.0], SignalKind.POLICY, learner="teacher")
    else:
        trace.write(leaf, spec.stream, [1.0, 1.0], SignalKind.WEIGHT)
    with pytest.raises(PromiseError, match="E7"):
        Learner(tiny_model("llama")).update([group], [build(spec)])


def test_a_second_learner_on_the_same_bfloat16_model_trains_it_too() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    groups = demonstrations()
    terms = [build(CrossEntropySpec())]
    norms = [Learner(model, OptimizerSpec(lr=1e-9)).update(groups, terms)["grad_norm"] for _ in range(2)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-3) and norms[0] > 0
    weight = model.network.model.norm.weight
    with torch.no_grad():
        weight.fill_(0.5)  # written to the network, as loading other weights does
    Learner(model, OptimizerSpec(lr=1e-9)).update(groups, terms)
    assert torch.equal(weight, torch.full_like(weight, 0.5))


def test_two_terms_of_one_kind_report_apart() -> None:
    groups = make_groups()
    build_annotator(GroupAdvantageSpec())(groups)
    one = Learner(tiny_model("llama")).update(groups, [build(PolicyGradientSpec())])
    two = Learner(tiny_model("llama")).update(groups, [build(PolicyGradientSpec()), build(PolicyGradientSpec())])
    assert two["sampler_gap"] == two["policy_gradient_2/sampler_gap"] == pytest.approx(one["sampler_gap"], rel=1e-6)
    assert two["loss"] == pytest.approx(2 * one["loss"], rel=1e-5)


def test_a_path_beyond_the_context_is_refused() -> None:
    groups = demonstrations(lengths=(700,))
    with pytest.raises(InputError, match="does not fit the context"):
        Learner(tiny_model("llama")).update(groups, [build(CrossEntropySpec())])


def test_a_schedule_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="needs an end"):
        Learner(tiny_model("llama"), OptimizerSpec(schedule="cosine"))


def test_a_missing_signal_is_an_error_that_names_it() -> None:
    groups = make_groups()
    build_annotator(GroupAdvantageSpec())(groups)
    with pytest.raises(InputError, match="needs the signal 'reference_logprob'.*add the annotator"):
        Learner(tiny_model("llama")).update(groups, [build(ReferenceKlSpec())])
    with pytest.raises(InputError, match="no loss term trains model 'policy'"):
        Learner(tiny_model("llama")).update(groups, [build(CrossEntropySpec(learner="critic"))])


def test_a_first_token_that_nothing_predicts_is_an_error() -> None:
    trace = Trace("bare")
    leaf = trace.add(-1, [5, 6, 7], Author.model("policy", 0), Role.ANSWER, [-1.0, -1.0, -1.0])
    group = Group("bare", [Span(trace, leaf, verdict=Verdict(1.0)), Span(trace, leaf, verdict=Verdict(0.0))])
    build_annotator(GroupAdvantageSpec())([group])
    with pytest.raises(InputError, match="nothing stands before"):
        Learner(tiny_model("llama")).update([group], [build(PolicyGradientSpec())])


def test_a_loss_that_is_not_finite_takes_no_step() -> None:
    learner = Learner(tiny_model("llama"))
    before = {n: p.clone() for n, p in learner.masters.parameters.items()}
    groups = make_groups()
    build_annotator(GroupAdvantageSpec())(groups)
    with torch.no_grad():
        learner.model.network.model.norm.weight.fill_(torch.inf)
    with pytest.raises(RunError, match=r"no step was taken\. Lower optimizer\.lr"):
        learner.update(groups, [build(PolicyGradientSpec())])
    assert learner.steps_taken == 0 and learner.model.version == 0
    assert all(torch.equal(p, before[n]) for n, p in learner.masters.parameters.items() if "norm" not in n)


def test_bfloat16_compute_keeps_float32_masters_and_accumulates_in_float32() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    layout = LearnerSpec(micro_batch_tokens=20)
    learner = Learner(model, OptimizerSpec(name="sgd", lr=1e-4, clip_norm=None), layout)
    assert learner.masters.separate
    assert {m.dtype for m in learner.masters.parameters.values()} == {torch.float32}
    groups = make_groups()
    build_annotator(GroupAdvantageSpec())(groups)
    terms = [build(PolicyGradientSpec())]
    gradients = learner.gradients(groups, terms)
    assert {g.dtype for g in gradients.values()} == {torch.float32}
    before = {n: m.clone() for n, m in learner.masters.parameters.items()}
    learner.update(groups, terms)
    for name, master in learner.masters.parameters.items():
        torch.testing.assert_close(master, before[name] - 1e-4 * gradients[name], rtol=1e-6, atol=1e-9)
        assert torch.equal(learner.masters.compute[name], master.bfloat16())
    # a step too small for bfloat16 is not lost: it is there in the master
    assert any(not torch.equal(m, before[n]) and torch.equal(m.bfloat16(), before[n].bfloat16())
               for n, m in learner.masters.parameters.items())  # fmt: skip


@pytest.mark.parametrize(
    "name", ["adamw", "adam", "sgd", "rmsprop", "adafactor", "nadam", "radam", "adagrad", "adamax", "adadelta"]
)
def test_every_optimizer_steps_and_its_state_continues_to_the_same_weights(name: str) -> None:
    groups = demonstrations()
    terms = [build(CrossEntropySpec())]
    spec = OptimizerSpec(name=name, lr=1e-2, schedule="cosine", warmup_steps=1)  # type: ignore[arg-type]
    one = Learner(tiny_model("llama"), spec, total_steps=6)
    for _ in range(2):
        one.update(groups, terms)
    weights = {n: p.detach().clone() for n, p in one.masters.parameters.items()}
    values, tensors = one.state()
    tensors = {n: t.clone() for n, t in tensors.items()}
    two = Learner(tiny_model("llama"), spec, total_steps=6)
    two.load(values, tensors)
    for learner in (one, two):
        learner.update(groups, terms)
    assert two.steps_taken == 3 and two.model.version == 3
    for parameter, other in zip(one.masters.parameters.values(), two.masters.parameters.values(), strict=True):
        assert torch.equal(parameter, other)
    assert any(not torch.equal(p, weights[n]) for n, p in one.masters.parameters.items())


def test_an_optimizer_refuses_a_key_it_does_not_have() -> None:
    with pytest.raises(InputError, match="'sgd' has no 'betas'"):
        Learner(tiny_model("llama"), OptimizerSpec(name="sgd", betas=(0.8, 0.9)))


def test_schedules() -> None:
    spec = OptimizerSpec(lr=1.0, schedule="linear", warmup_steps=2, final_ratio=0.1)
    rates = [spec.learning_rate(s, total_steps=12) for s in (0, 1, 2, 7, 12, 20)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 0.55, 0.1, 0.1])
    cosine = OptimizerSpec(lr=1.0, schedule="cosine", decay_steps=10)
    assert [cosine.learning_rate(s) for s in (0, 5, 10)] == pytest.approx([1.0, 0.5, 0.0])
    assert OptimizerSpec().learning_rate(3) == 2e-5
    assert OptimizerSpec().learning_rate(3, adapter=True) == 2e-4


def test_clipping_bounds_the_global_norm_and_reports_it_unclipped() -> None:
    groups = demonstrations()
    terms = [build(CrossEntropySpec())]
    learner = Learner(tiny_model("llama"), OptimizerSpec(name="sgd", lr=1.0, clip_norm=0.01))
    before = {n: p.detach().clone() for n, p in learner.masters.parameters.items()}
    metrics = learner.update(groups, terms)
    moved = math.sqrt(sum(float(((p.detach() - before[n]) ** 2).sum()) for n, p in learner.masters.parameters.items()))
    assert moved == pytest.approx(0.01, rel=1e-3)
    assert metrics["grad_norm"] > 0.1


def test_several_optimizer_steps_split_the_groups_by_seed() -> None:
    groups = demonstrations(lengths=(3, 4, 5, 6))
    terms = [build(CrossEntropySpec())]
    learner = Learner(tiny_model("llama"), layout=LearnerSpec(optimizer_steps=2))
    metrics = learner.update(groups, terms)
    assert metrics["optimizer_steps"] == 2 and learner.steps_taken == 2 and metrics["trained_tokens"] == 18
    assert learner.update([], terms) == {"loss": 0.0, "trained_tokens": 0.0, "optimizer_steps": 0.0}
