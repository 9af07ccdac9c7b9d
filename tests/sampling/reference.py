"""What the engine is measured against: the model's own padded path, and transformers' own logit processors."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.stats
import torch
from transformers import LogitsProcessorList
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from burnish.models.language_model import LanguageModel
from burnish.sampling import Completion, SamplingParams


@torch.no_grad()
def model_logits(model: LanguageModel, tokens: Sequence[int]) -> torch.Tensor:
    """Logits [T, V] after each token by transformers alone: no layout of ours, no lean head."""
    network: Any = model.network
    network.set_attn_implementation("eager")
    with model.numerics():
        return network(input_ids=torch.tensor([list(tokens)])).logits[0]


def distribution(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution [T, V] that transformers would sample from, in float64."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        warpers.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        warpers.append(TopPLogitsWarper(params.top_p))
    if params.min_p:
        warpers.append(MinPLogitsWarper(params.min_p))
    nothing: Any = None
    return torch.softmax(warpers(nothing, logits.double()), dim=-1)


def gap(model: LanguageModel, prompt: Sequence[int], completion: Completion, params: SamplingParams) -> float:
    """Largest difference between a completion's log-probabilities and the model's own (promise E5)."""
    tokens = completion.tokens.tolist()
    logits = model_logits(model, [*prompt, *tokens])[len(prompt) - 1 : -1]
    under = SamplingParams(params.max_tokens) if params.greedy else params
    expected = distribution(logits, under).log()[torch.arange(len(tokens)), torch.tensor(tokens)]
    return float(np.abs(expected.numpy() - completion.logprobs).max())


def fits(counts: np.ndarray, expected: np.ndarray) -> float:
    """p-value of the chi-square test of counts against expected counts; cells below 5 are joined, and a count where
    nothing is expected gives 0."""
    if counts[expected == 0].any():
        return 0.0
    order = np.argsort(expected)
    small = order[np.cumsum(expected[order]) < 5]
    rest = np.setdiff1d(order, small)
    joined = [(counts[small].sum(), expected[small].sum())] if expected[small].sum() > 0 else []
    pairs = [*joined, *zip(counts[rest], expected[rest], strict=True)]
    while len(pairs) > 1 and pairs[0][1] < 5:
        (a, b), (c, d) = pairs[:2]
        pairs[:2] = [(a + c, b + d)]
    observed, wanted = np.array(pairs, dtype=np.float64).T
    return float(scipy.stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue)


def together(*work: Any) -> list[Any]:
    """Run coroutines side by side."""

    async def gather() -> list[Any]:
        return await asyncio.gather(*work)

    return asyncio.run(gather())
