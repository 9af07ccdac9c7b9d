"""Deterministic mode: the same bits alone and in company, or a refusal that says what stands in the way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from burnish.errors import RunError
from burnish.sampling import Completion, LocalEngine, SamplingParams
from tests.sampling.reference import gap, together
from tests.tiny import tiny_model

PROMPT = [5, 9, 3, 3, 17, 40, 21]


def _same_bits(one: list[Completion], other: list[Completion]) -> bool:
    return all(
        np.array_equal(a.tokens, b.tokens) and np.array_equal(a.logprobs, b.logprobs)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("architecture", ["llama", "mistral", "gemma2", "gpt2", "granite", "cohere2", "mamba"])
def test_a_completion_has_the_same_bits_alone_and_among_others(architecture: str) -> None:
    """Groups, single samples and continuations, among requests of other lengths that come and go."""
    model = tiny_model(architecture)
    engine = LocalEngine(model, max_rows=40, deterministic=True)
    params = [
        SamplingParams(17),
        SamplingParams(9, temperature=0.8, top_p=0.9),
        SamplingParams(10 if architecture == "mamba" else 70),
    ]
    calls: list[dict[str, Any]] = [
        {"prompt": PROMPT, "params": params[0], "n": 11, "seed": 1, "task": 1},
        {"prompt": PROMPT[:3], "params": params[1], "n": 1, "seed": 1, "task": 2},
        {"prompt": PROMPT[::-1], "params": params[2], "n": 2, "seed": 1, "task": 3},
    ]
    alone = [engine.sample_sync(**call) for call in calls]
    others = [
        {
            "prompt": [i, 2 * i, 3],
            "params": SamplingParams(4 + (1 if architecture == "mamba" else 5) * i),
            "n": 1 + i % 3,
            "seed": 8,
            "task": i,
        }
        for i in range(9)
    ]
    sandwich = [*others[:4], *calls, *others[4:]]
    company = together(*(engine.sample(**call) for call in sandwich))[4:7]
    assert all(_same_bits(a, b) for a, b in zip(alone, company, strict=True))
    session = alone[0][2].session
    (single,) = [engine.extend_sync(session, [8, 9], params[0], seed=2, task=1)]
    extended = together(
        engine.extend(alone[0][0].session, [1], params[0], seed=2, task=4),
        engine.extend(session, [8, 9], params[0], seed=2, task=1),
        *(engine.sample(**call) for call in others),
    )[1]
    assert _same_bits(single, extended)
    assert max(gap(model, PROMPT, c, params[0]) for c in alone[0]) < 1e-4


def test_repeating_a_run_repeats_its_bits_whatever_ran_before() -> None:
    runs = []
    for warm_up in (0, 3):
        engine = LocalEngine(tiny_model("llama"), max_rows=24, deterministic=True)
        for i in range(warm_up):
            engine.sample_sync([i, i], SamplingParams(5 + 40 * i), n=2, seed=5, task=i)
        runs.append(engine.sample_sync(PROMPT, SamplingParams(12), n=8, seed=1, task=1))
    assert _same_bits(*runs)


def test_a_model_whose_rows_feel_each_other_is_refused_naming_the_module() -> None:
    model = tiny_model("llama")
    layer = model.network.get_submodule("model.layers.1.mlp")
    layer.register_forward_hook(lambda module, inputs, output: output + 1e-6 * output.mean(dim=1, keepdim=True))
    with pytest.raises(RunError, match=r"deterministic mode is not possible .* differ in model\.norm by"):
        LocalEngine(model, max_rows=16, deterministic=True)
    LocalEngine(model, max_rows=16)  # without the mode it is the user's model as it is


def test_row_counts_are_padded_as_far_as_this_machine_needs() -> None:
    """A product that changes bits below 16 rows makes the engine pad to 16."""
    model = tiny_model("llama")

    def touchy(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output if output.shape[1] % 16 == 0 else output * (1 + 1e-6)

    model.network.get_submodule("model.layers.0.mlp").register_forward_hook(touchy)
    engine = LocalEngine(model, max_rows=32, deterministic=True)
    alone = engine.sample_sync(PROMPT, SamplingParams(9), n=2, seed=1, task=1)
    _, company = together(
        engine.sample([1, 2], SamplingParams(9), n=20, seed=1, task=2),
        engine.sample(PROMPT, SamplingParams(9), n=2, seed=1, task=1),
    )
    assert _same_bits(alone, company)


def test_a_mixture_of_experts_is_refused() -> None:
    with pytest.raises(RunError, match="mixture of experts"):
        LocalEngine(tiny_model("olmoe"), deterministic=True)
