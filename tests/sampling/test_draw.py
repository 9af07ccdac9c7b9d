"""Drawing: every option draws from the distribution it claims, and says with what probability."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.errors import RunError
from burnish.randomness import counter_uniform
from burnish.sampling.draw import draw
from burnish.sampling.protocol import SamplingParams
from tests.sampling.reference import distribution, fits

OPTIONS = {
    "plain": SamplingParams(1),
    "temperature": SamplingParams(1, temperature=0.6),
    "hot": SamplingParams(1, temperature=1.7),
    "top_k": SamplingParams(1, top_k=5),
    "top_p": SamplingParams(1, top_p=0.8),
    "min_p": SamplingParams(1, min_p=0.1),
    "combined": SamplingParams(1, temperature=1.3, top_k=20, top_p=0.9, min_p=0.05),
}


def _logits(vocabulary: int, seed: int = 0, spread: float = 2.0) -> torch.Tensor:
    return torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("vocabulary", [23, 600])
def test_samples_match_the_distribution_of_transformers(name: str, vocabulary: int) -> None:
    params, count = OPTIONS[name], 5000
    logits = _logits(vocabulary)
    drawn = draw(logits.expand(count, -1), counter_uniform(7, np.arange(count)), [params] * count)
    expected = distribution(logits[None], params)[0].numpy()
    assert fits(np.bincount(drawn.tokens, minlength=vocabulary), expected * count) > 1e-3
    assert np.abs(drawn.logprobs - np.log(expected[drawn.tokens])).max() < 1e-5
    if params.truncates:
        kept = np.flatnonzero(expected).tolist()
        assert all(ids is not None and ids.tolist() == kept for ids in drawn.kept)
    else:
        assert all(ids is None for ids in drawn.kept)


def test_mixed_parameters_in_one_batch_give_what_each_gives_alone() -> None:
    params = [*OPTIONS.values(), SamplingParams(1, temperature=0)] * 3
    logits = torch.stack([_logits(700, seed) for seed in range(len(params))])
    uniforms = counter_uniform(3, np.arange(len(params)))
    together = draw(logits, uniforms, params)
    for i, one in enumerate(params):
        alone = draw(logits[i : i + 1], uniforms[i : i + 1], [one])
        assert alone.tokens[0] == together.tokens[i]
        assert alone.logprobs[0] == together.logprobs[i]


@pytest.mark.parametrize("uniform", [2.0**-54, 0.25, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("name", ["plain", "top_p", "min_p"])
def test_a_token_of_probability_zero_is_never_drawn(uniform: float, name: str) -> None:
    logits = torch.full((2, 1000), -torch.inf)
    logits[:, [300, 301, 777]] = torch.tensor([0.0, -1.0, -200.0])  # the last one underflows to zero in float32
    drawn = draw(logits, np.array([uniform] * 2), [OPTIONS[name]] * 2)
    assert set(drawn.tokens.tolist()) <= {300, 301}
    assert np.isfinite(drawn.logprobs).all()


def test_the_draw_stays_exact_over_a_large_vocabulary() -> None:
    """A flat row of 150,000 tokens: a float32 cumulative sum would be off by whole tokens."""
    vocabulary, count = 150_000, 64
    uniforms = counter_uniform(5, np.arange(count))
    drawn = draw(torch.zeros(count, vocabulary), uniforms, [SamplingParams(1)] * count)
    assert np.array_equal(drawn.tokens, np.floor(uniforms * vocabulary).astype(np.int64))
    assert np.abs(drawn.logprobs + np.log(vocabulary)).max() < 1e-6


def test_top_p_looks_beyond_the_first_candidates_when_it_must() -> None:
    logits = _logits(5000, spread=0.3)
    params = SamplingParams(1, top_p=0.97)
    expected = distribution(logits[None], params)[0].numpy()
    drawn = draw(logits[None], np.array([0.999]), [params])
    assert drawn.kept[0] is not None
    assert np.array_equal(drawn.kept[0], np.flatnonzero(expected)) and len(drawn.kept[0]) > 2000
    assert abs(drawn.logprobs[0] - np.log(expected[drawn.tokens[0]])) < 1e-5


def test_tokens_that_tie_with_the_kth_stay_as_in_transformers() -> None:
    logits = torch.tensor([3.0, 1.0, 2.0, 2.0, 2.0, 0.0])
    drawn = draw(logits[None], np.array([0.9]), [SamplingParams(1, top_k=2)])
    assert drawn.kept[0] is not None
    assert drawn.kept[0].tolist() == [0, 2, 3, 4]


def test_many_ties_beyond_the_candidates_are_all_counted() -> None:
    logits = torch.zeros(1, 3000)
    logits[0, 5] = 1.0
    drawn = draw(logits, np.array([0.5]), [SamplingParams(1, top_k=2, top_p=0.5)])
    expected = distribution(logits, SamplingParams(1, top_k=2))[0].numpy()  # ties with the second: everything stays
    assert (expected > 0).all()
    assert drawn.kept[0] is not None
    assert len(drawn.kept[0]) == int(np.searchsorted(np.cumsum(np.sort(expected)[::-1]), 0.5)) + 1


def test_greedy_takes_the_first_of_the_best_and_reports_the_models_own_probability() -> None:
    logits = torch.tensor([[0.0, 2.0, 2.0, 1.0]])
    drawn = draw(logits, np.array([0.9]), [SamplingParams(1, temperature=0)])
    assert drawn.tokens.tolist() == [1]
    assert drawn.logprobs[0] == pytest.approx(float(torch.log_softmax(logits[0], 0)[1]))


def test_a_cut_that_keeps_everything_records_an_empty_support() -> None:
    drawn = draw(torch.zeros(1, 50), np.array([0.5]), [SamplingParams(1, top_k=50)])
    assert drawn.kept == [None]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("name", ["plain", "top_k", "greedy"])
def test_logits_that_are_no_distribution_stop_the_run(bad: float, name: str) -> None:
    params = SamplingParams(1, temperature=0) if name == "greedy" else OPTIONS[name]
    logits = torch.full((1, 40), bad)
    with pytest.raises(RunError, match="diverged"):
        draw(logits, np.array([0.5]), [params])
