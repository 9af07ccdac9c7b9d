"""What completions say they cost: against a closed form worked by hand, and against torch's own counter."""

from __future__ import annotations

import asyncio

import pytest
from torch.utils.flop_counter import FlopCounterMode

from burnish.ledger import Ledger
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sampling.protocol import Completion, count_samples
from tests.tiny import tiny_model

PROMPT = [5, 9, 3, 3, 17, 40, 21, 8, 2, 11, 60]
P = len(PROMPT)
LAYERS, HIDDEN, VOCABULARY, WIDTH = 2, 32, 97, 32  # of the tiny llama; WIDTH: its four heads of 8
PARAMETERS = LAYERS * (2 * HIDDEN * 32 + 2 * HIDDEN * 16 + 3 * HIDDEN * 48)


def computed(positions: range, logits: int) -> int:
    """Operations of a llama for tokens at some positions, each seeing itself and all before it, and of some logits."""
    pairs = sum(p + 1 for p in positions)
    return 2 * PARAMETERS * len(positions) + 4 * LAYERS * WIDTH * pairs + 2 * HIDDEN * VOCABULARY * logits


def products(counter: FlopCounterMode) -> int:
    """Products with weights that torch counted; those of attention are bmm or fused."""
    of = {str(op): count for op, count in counter.get_flop_counts()["Global"].items()}
    return of["aten.mm"] + of.get("aten.addmm", 0)


def test_the_first_sample_has_the_prompt_and_every_sample_what_it_decoded() -> None:
    engine = LocalEngine(tiny_model("llama"))
    stops = frozenset(range(30))  # a third of the vocabulary, so that lengths differ
    group = engine.sample_sync(PROMPT, SamplingParams(12, stop_ids=stops), n=6, seed=3, task=1)
    lengths = [len(c.tokens) for c in group]
    assert len(set(lengths)) > 2 and 1 in lengths
    assert [c.prefilled for c in group] == [P, 0, 0, 0, 0, 0]
    for index, (completion, length) in enumerate(zip(group, lengths, strict=True)):
        prompt = computed(range(P), 1) if index == 0 else 0
        # the last sampled token is not fed to the model
        assert completion.flops == prompt + computed(range(P, P + length - 1), length - 1)
    assert engine.metrics()["flops"] == sum(c.flops or 0 for c in group)


@pytest.mark.parametrize("architecture", ["llama", "gpt2", "qwen3_moe", "gemma2"])
def test_what_is_counted_is_what_the_engine_multiplies_with_weights(architecture: str) -> None:
    """Over several prompts at once, more rows than places, and continued sessions; attention apart."""
    model = tiny_model(architecture)
    model.attention_shapes = ()  # so that the products with weights are left, which torch counts on every path
    engine = LocalEngine(model, max_rows=4)

    async def work() -> list[Completion]:
        params = SamplingParams(9, stop_ids=frozenset(range(12)))
        waves = [engine.sample(PROMPT[i:], params, n=3, seed=1, task=i) for i in range(4)]
        first = [c for group in await asyncio.gather(*waves) for c in group]
        more = [
            engine.extend(c.session, [1, 2], params, n=n, seed=2, task=9) for n, c in zip((1, 3), first, strict=False)
        ]
        return [*first, *(c for group in await asyncio.gather(*more) for c in group)]

    with FlopCounterMode(display=False) as counter:
        completions = asyncio.run(work())
    ledger = Ledger()
    count_samples(ledger, "policy", completions)
    assert ledger.total("policy", "flops") == products(counter)
    assert ledger.total("policy", "prefilled_tokens") == engine.metrics()["tokens_prefilled"]
    assert ledger.total("policy", "sampled_tokens") == engine.metrics()["tokens_sampled"]


def test_a_continued_session_computes_only_what_is_new_and_one_that_lost_its_keys_everything() -> None:
    engine = LocalEngine(tiny_model("llama"))
    [first] = engine.sample_sync(PROMPT, SamplingParams(4), seed=1, task=1)
    known = P + 4 - 1
    [second] = engine.extend_sync(first.session, [1, 2, 3], SamplingParams(2), seed=1, task=2)
    assert second.prefilled == 4 and second.flops == computed(range(known, known + 4), 1) + computed(
        range(known + 4, known + 5), 1
    )
    first.session.cache = None  # as the engine does when memory runs out
    [third] = engine.extend_sync(first.session, [1, 2, 3], SamplingParams(2), seed=1, task=2)
    assert third.prefilled == known + 4
    assert third.flops == computed(range(known + 4), 1) + computed(range(known + 4, known + 5), 1)


def test_a_model_without_a_cache_counts_no_recomputation() -> None:
    """Its every step runs the whole sequences again; the mathematics asks for each token once."""
    engine = LocalEngine(tiny_model("mamba"))
    [whole] = engine.sample_sync(PROMPT, SamplingParams(5), seed=1, task=1)
    [start] = engine.sample_sync(PROMPT, SamplingParams(1), seed=1, task=1)
    maps = 2 * (HIDDEN * 128 + 64 * 20 + 4 * 64 + 64 * HIDDEN + 64 * 4)  # in, x, dt, out, convolution
    token, logits = 2 * maps, 2 * HIDDEN * VOCABULARY
    assert start.flops == P * token + logits
    assert whole.flops == (P + 4) * token + 5 * logits


def test_what_was_cancelled_counts_as_far_as_it_came() -> None:
    engine = LocalEngine(tiny_model("llama"), max_rows=1)

    async def work() -> list[list[Completion]]:
        running = [asyncio.ensure_future(engine.sample(PROMPT, SamplingParams(50), seed=1, task=t)) for t in (1, 2)]
        while engine.metrics()["tokens_sampled"] < 7:
            await asyncio.sleep(0)
        engine.cancel(1), engine.cancel(2)
        return await asyncio.gather(*running)

    [begun], [waiting] = asyncio.run(work())
    assert begun.finish == "cancelled" and len(begun.tokens) == 7
    assert begun.flops == computed(range(P), 1) + computed(range(P, P + 6), 6)
    assert (len(waiting.tokens), waiting.prefilled, waiting.flops) == (0, 0, 0)


def test_what_a_sampler_does_not_tell_is_not_counted() -> None:
    [told] = LocalEngine(tiny_model("llama")).sample_sync(PROMPT, SamplingParams(3), seed=1, task=1)
    silent = Completion(told.tokens, told.logprobs, told.versions, told.finish)
    ledger = Ledger()
    count_samples(ledger, "teacher", [silent, silent])
    assert ledger.to_json() == {"teacher": {"prompts": 1, "rollouts": 2, "sampled_tokens": 6}}
