"""What a GPU computes is what the CPU computes, and the promises hold there: E1, E5, equal draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.scoring import score
from burnish.learning.spec import LearnerSpec
from burnish.losses.term import Term
from burnish.models.adapters import attach_adapter
from burnish.models.devices import CPU
from burnish.models.language_model import LanguageModel
from burnish.models.spec import HeadPath, LoraSpec
from burnish.sampling import LocalEngine, SamplingParams
from burnish.traces import CONTEXT, Author, Group, Role, Span, Trace
from tests.learning.test_e1 import annotated, terms_for
from tests.sampling.reference import together
from tests.tiny import tiny_network

Gradients = dict[str, torch.Tensor]

FLEXED = ["qwen3", "gemma2", "gemma3"]
"""Head sizes of 16: FlexAttention on a GPU, the last two with windows, gemma2 with a soft cap."""
ARCHITECTURES = [*FLEXED, "llama", "gpt2", "qwen3_moe"]
"""The others have heads of 8, which the forest's own calls compute on every device."""
PROMPTS = [[5, 9, 3, 3, 17, 40, 21, 8, 2, 11, 60], [7, 7, 1], [30, 31, 32, 33, 34, 35, 36]]
PARAMS = [
    SamplingParams(24),
    SamplingParams(16, temperature=0.7),
    SamplingParams(12, temperature=1.2, top_k=30, top_p=0.9, min_p=0.02),
]
TERMS: dict[str, Any] = {
    "policy gradient": lambda: terms_for("sequence_mean", wide=False)[:1],
    "entropy": lambda: terms_for("sequence_mean", wide=False)[1:2],
    "cross-entropy": lambda: terms_for("sequence_mean", wide=False)[2:],
    "one of a sequence": lambda: terms_for("sequence_mean", wide=True),
    "all together": lambda: terms_for("token_mean", wide=False),
}


def model_on(
    device: torch.device, architecture: str, dtype: torch.dtype = torch.float32, *, adapter: bool = False
) -> LanguageModel:
    network: Any = tiny_network(architecture, dtype=dtype)
    if adapter:
        network = attach_adapter(network, LoraSpec(rank=4), train=True, seed=0)
        with torch.no_grad():
            for name, parameter in network.named_parameters():
                if "lora_B" in name:
                    parameter.copy_(0.3 * torch.sin(torch.arange(parameter.numel()).view_as(parameter)))
    model = LanguageModel(network, device=device, compute_dtype=dtype)
    assert model.sharing, model.path_in_use
    return model


def gradients(model: LanguageModel, terms: list[Term], layout: LearnerSpec | None = None) -> Gradients:
    found = Learner(model, layout=layout).gradients(annotated(), terms)
    return {name: tensor.double().cpu() for name, tensor in found.items()}


def distance(found: Gradients, expected: Gradients) -> float:
    """Over all tensors together, relative."""
    assert found.keys() == expected.keys() and found
    gap = sum(float((found[n] - expected[n]).norm()) ** 2 for n in expected) ** 0.5
    return gap / sum(float(g.norm()) ** 2 for g in expected.values()) ** 0.5


@pytest.mark.parametrize("terms", TERMS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gradients_equal_the_cpus(device: torch.device, architecture: str, terms: str) -> None:
    expected = gradients(model_on(CPU, architecture), TERMS[terms]())
    assert distance(gradients(model_on(device, architecture), TERMS[terms]()), expected) < 1e-4


@pytest.mark.parametrize("layout", [LearnerSpec(gradient_checkpointing=True), LearnerSpec(micro_batch_tokens=30)])
def test_recomputed_layers_cut_steps_and_adapters_equal_the_cpus(device: torch.device, layout: LearnerSpec) -> None:
    terms = terms_for("token_mean", wide=False)
    expected = gradients(model_on(CPU, "qwen3", adapter=True), terms, layout)
    assert distance(gradients(model_on(device, "qwen3", adapter=True), terms, layout), expected) < 1e-4


def test_loss_and_metrics_equal_the_cpus(device: torch.device) -> None:
    terms = terms_for("sequence_mean", wide=True)
    found, expected = (Learner(model_on(place, "qwen3")).update(annotated(), terms) for place in (device, CPU))
    assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probabilities_and_entropies_equal_the_cpus(device: torch.device, architecture: str) -> None:
    found, expected = (
        score(model_on(place, architecture), annotated(), ("policy_logprob", "policy_entropy"))
        for place in (device, CPU)
    )
    for name, values in expected.values.items():
        np.testing.assert_allclose(found.values[name], values, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("architecture", ["qwen3", "gemma2", "llama"])
def test_e1_gradient_is_independent_of_the_layout(device: torch.device, architecture: str, dtype: torch.dtype) -> None:
    model, terms = model_on(device, architecture, dtype), terms_for("token_mean", wide=False)
    reference = gradients(model, terms, LearnerSpec(micro_batch_tokens=100_000))
    bound = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 0.1}[dtype]
    for tokens, packing, share in ((1, True, True), (25, True, False), (60, False, True)):
        layout = LearnerSpec(micro_batch_tokens=tokens, packing=packing, share_prefixes=share)
        found = distance(gradients(model, terms, layout), reference)
        print(f"E1 {architecture} {dtype} micro-batch {tokens}: {found:.1e}")
        assert found < bound


@pytest.mark.parametrize("path", ["auto", "fused", "chunked"])
def test_a_bfloat16_heads_paths_agree(device: torch.device, path: HeadPath) -> None:
    """What is trained in bfloat16 on a GPU is what is trained in float32 on the CPU, up to bfloat16."""
    terms = TERMS["cross-entropy"]()
    expected = gradients(model_on(CPU, "qwen3"), terms)
    model = model_on(device, "qwen3", torch.bfloat16)
    assert model.head.fuses("auto", rounded=True) == (device != CPU)
    assert distance(gradients(model, terms, LearnerSpec(head=path)), expected) < 0.05


def sampled(model: LanguageModel) -> list[tuple[Group, list[int]]]:
    """Groups with the engine's samples and log-probabilities, and their ids."""
    engine = LocalEngine(model, max_rows=5)
    work = list(enumerate(zip(PROMPTS, PARAMS, strict=True)))
    results = together(*(engine.sample(p, s, n=1 + 2 * i, seed=3, task=i) for i, (p, s) in work))
    groups = []
    for (index, (prompt, params)), completions in zip(work, results, strict=True):
        trace = Trace(str(index))
        root = trace.add(-1, np.array(prompt), CONTEXT, Role.PROMPT)
        members = []
        for done in completions:
            leaf = trace.add(
                root, done.tokens, Author.model("policy", 0), Role.ANSWER, done.logprobs, support=done.support
            )
            trace.nodes[leaf].meta["temperature"] = params.temperature
            members.append(Span(trace, leaf))
        groups.append((Group(trace.id, members), [t for done in completions for t in done.tokens.tolist()]))
    return groups


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_equal_draws_give_equal_tokens_and_e5_holds(device: torch.device, architecture: str) -> None:
    model = model_on(device, architecture)
    found, expected = sampled(model), sampled(model_on(CPU, architecture))
    assert [tokens for _, tokens in found] == [tokens for _, tokens in expected]
    gap = np.abs(score(model, [group for group, _ in found]).sampler_gap).max()
    print(f"E5 {architecture}: {gap:.1e}")
    assert gap < 1e-4
