"""What the engine samples, first token and later ones, follows the model's distribution for every option."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from burnish.sampling import LocalEngine, SamplingParams
from tests.sampling.reference import distribution, fits, model_logits
from tests.tiny import tiny_model

VOCAB, COUNT = 11, 3000
PROMPT = [4, 9, 1, 1, 7]

OPTIONS = {
    "plain": SamplingParams(2),
    "temperature": SamplingParams(2, temperature=0.5),
    "top_k": SamplingParams(2, top_k=4),
    "top_p": SamplingParams(2, top_p=0.7),
    "min_p": SamplingParams(2, min_p=0.2),
    "combined": SamplingParams(2, temperature=1.5, top_k=7, top_p=0.9, min_p=0.1),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_pairs_of_tokens_follow_the_exact_distribution(name: str) -> None:
    """Chi-square of two sampled tokens against all 121 pairs, enumerated with transformers' own processors."""
    model = tiny_model("qwen2", vocab=VOCAB)
    params = OPTIONS[name]
    completions = LocalEngine(model, max_rows=512).sample_sync(PROMPT, params, n=COUNT, seed=11, task=3)
    pairs = np.array([c.tokens for c in completions])
    first = distribution(model_logits(model, PROMPT)[-1:], params)[0]
    second = [distribution(model_logits(model, [*PROMPT, t])[-1:], params)[0] for t in range(VOCAB)]
    expected = (first[:, None] * torch.stack(second)).numpy().ravel()
    counts = np.bincount(pairs[:, 0] * VOCAB + pairs[:, 1], minlength=VOCAB**2)
    assert fits(counts, expected * COUNT) > 1e-3
    assert max(abs(sum(c.logprobs) - np.log(expected[c.tokens[0] * VOCAB + c.tokens[1]])) for c in completions) < 1e-4
    for completion in completions[:50]:
        if completion.support is None:
            assert not params.truncates
            continue
        after = [first, second[completion.tokens[0]]]
        for place, probabilities in enumerate(after):
            kept = np.flatnonzero(probabilities.numpy()).tolist()
            assert completion.support.at(place).tolist() == (kept if len(kept) < VOCAB else [])


def test_other_seeds_tasks_and_samples_draw_other_tokens() -> None:
    engine = LocalEngine(tiny_model("llama"))
    params = SamplingParams(12)

    def tokens(seed: int, task: int, sample: int) -> tuple[int, ...]:
        return tuple(engine.sample_sync(PROMPT, params, seed=seed, task=task, sample=sample)[0].tokens.tolist())

    assert len({tokens(1, 1, 1), tokens(2, 1, 1), tokens(1, 2, 1), tokens(1, 1, 2), tokens(-1, 2**63, 0)}) == 5
    assert tokens(1, 1, 1) == tokens(1, 1, 1)
    group = engine.sample_sync(PROMPT, params, n=3, seed=1, task=1)
    assert tuple(group[2].tokens.tolist()) == tokens(1, 1, 2)
