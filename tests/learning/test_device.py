"""Learner and engine on a device that mixes with no other: the same numbers, and few moments of waiting for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from burnish.learning.learner import Learner
from burnish.learning.spec import LearnerSpec, OptimizerSpec
from burnish.losses.term import Term
from burnish.models.language_model import LanguageModel
from burnish.sampling import LocalEngine, SamplingParams
from tests.learning.test_e1 import annotated, terms_for
from tests.pretend import GPU, moved, pretended
from tests.sampling.reference import together
from tests.tiny import tiny_network

ARCHITECTURES = ["qwen3_moe", "gemma2", "gpt2"]
PROMPTS = [[5, 9, 3, 3, 17, 40, 21, 8, 2, 11, 60], [7, 7, 1], [30, 31, 32, 33, 34, 35, 36]]


@pytest.fixture(autouse=True)
def without_flex(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no compiler for a GPU that is not there: the forest's own calls take its place."""
    monkeypatch.setattr("burnish.models.forest.flex_serves", lambda query, value: False)


@contextmanager
def model_on(gpu: bool, architecture: str, **overrides: Any) -> Iterator[tuple[LanguageModel, list[str]]]:
    """A tiny model on either device, and what has been waited for since it was made."""
    network = tiny_network(architecture, overrides=overrides)
    with pretended() if gpu else nullcontext([]) as waits:
        model = LanguageModel(moved(network) if gpu else network)
        assert model.sharing and (model.device == GPU) == gpu
        del waits[:]
        yield model, waits


def updated(gpu: bool, architecture: str, terms: list[Term], layout: LearnerSpec) -> dict[str, Any]:
    """What an update leaves behind: weights and metrics."""
    with model_on(gpu, architecture) as (model, _):
        learner = Learner(model, OptimizerSpec(name="sgd", lr=0.1), layout)
        metrics = learner.update(annotated(), terms)
        weights = {n: p.detach().cpu() for n, p in learner.masters.parameters.items()}
    return {**{f"metric {k}": torch.tensor(v) for k, v in metrics.items()}, **weights}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_an_update_mixes_no_devices_and_gives_the_same_numbers(architecture: str) -> None:
    terms, layout = terms_for("sequence_mean", wide=False), LearnerSpec(micro_batch_tokens=40)
    expected = updated(False, architecture, terms, layout)
    found = updated(True, architecture, terms, layout)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_recomputed_layers_and_terms_of_a_sequence_mix_no_devices_either() -> None:
    for layout in (LearnerSpec(gradient_checkpointing=True), LearnerSpec(micro_batch_tokens=30, head="chunked")):
        terms = terms_for("token_mean", wide=False)
        expected = updated(False, "llama", terms, layout)
        found = updated(True, "llama", terms, layout)
        assert float(found["metric loss"]) == pytest.approx(float(expected["metric loss"]), rel=1e-5)
        assert float(found["metric grad_norm"]) == pytest.approx(float(expected["metric grad_norm"]), rel=1e-4)


def waits_of_an_update(layers: int, micro_batch: int) -> int:
    with model_on(True, "llama", num_hidden_layers=layers) as (model, waits):
        learner = Learner(model, layout=LearnerSpec(micro_batch_tokens=micro_batch))
        learner.update(annotated(), terms_for("sequence_mean", wide=False))
        return len(waits)


def test_an_update_waits_no_oftener_for_more_chunks_of_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every trained token belongs to the term: otherwise choosing them is waited for, once in a chunk."""
    terms = terms_for("sequence_mean", wide=False)[:1]
    waits = []
    for rows in (1000, 5):
        monkeypatch.setattr("burnish.models.head.chunk_elements", lambda device, rows=rows: rows * 97)
        with model_on(True, "llama") as (model, seen):
            Learner(model).update(annotated()[:5], terms)
            waits.append(len(seen))
    assert waits[0] == waits[1]


def test_an_update_waits_no_oftener_for_more_layers() -> None:
    """Each wait leaves a GPU without work for a moment: a few in a micro-batch, none in a layer or for a parameter."""
    assert waits_of_an_update(2, 10_000) == waits_of_an_update(6, 10_000) <= 40
    assert waits_of_an_update(2, 10_000) < waits_of_an_update(2, 60)


PARAMS = [
    SamplingParams(14),
    SamplingParams(9, temperature=0.7),
    SamplingParams(12, temperature=1.2, top_k=30, top_p=0.9, min_p=0.02),
]


def sampled(gpu: bool, architecture: str) -> list[tuple[list[int], np.ndarray]]:
    work = list(enumerate(zip(PROMPTS, PARAMS, strict=True)))
    with model_on(gpu, architecture) as (model, _):
        engine = LocalEngine(model, max_rows=5)
        groups = together(*(engine.sample(p, s, n=1 + 2 * i, seed=3, task=i) for i, (p, s) in work))
        (more,) = together(engine.extend(groups[1][0].session, [4, 50, 6], PARAMS[0], n=2, seed=3, task=9))
    return [(c.tokens.tolist(), c.logprobs) for c in (*(c for group in groups for c in group), *more)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_engine_mixes_no_devices_and_draws_the_same_tokens(architecture: str) -> None:
    """Random numbers are a hash of where they are used: the device has no part in them."""
    expected = sampled(False, architecture)
    found = sampled(True, architecture)
    for (tokens, logprobs), (others, theirs) in zip(found, expected, strict=True):
        assert tokens == others
        np.testing.assert_allclose(logprobs, theirs, rtol=0, atol=1e-4)


def waits_of_decoding(layers: int, rows: int, tokens: int) -> int:
    with model_on(True, "llama", num_hidden_layers=layers) as (model, waits):
        engine = LocalEngine(model)
        engine.sample_sync(PROMPTS[0], SamplingParams(tokens), n=rows, seed=1, task=0)
        return len(waits)


def test_a_decode_step_waits_a_few_times_whatever_its_rows_and_layers() -> None:
    step = (waits_of_decoding(2, 4, 20) - waits_of_decoding(2, 4, 10)) / 10
    assert step == (waits_of_decoding(6, 4, 20) - waits_of_decoding(6, 4, 10)) / 10
    assert step == (waits_of_decoding(2, 16, 20) - waits_of_decoding(2, 16, 10)) / 10
    assert step == 3  # sums of blocks, the tokens of one block, and the log-probability of the drawn one


@pytest.fixture(params=["factory", "operand"])
def mistake(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield {"factory": lambda x: x + torch.arange(3), "operand": lambda x: torch.cat([x, torch.zeros(3)])}[request.param]


def test_the_device_that_is_not_there_refuses_what_a_gpu_refuses(mistake: Any) -> None:
    with pretended() as waits:
        there = torch.ones(3, device="cuda")
        with pytest.raises(AssertionError, match="of the CPU and of the GPU"):
            mistake(there)
        assert float((there * 2).sum()) == 6.0 and len(waits) == 1
        assert there[torch.tensor([0, 1])].device == GPU and there.cpu().device.type == "cpu" and len(waits) == 2
