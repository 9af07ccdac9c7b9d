"""Requests in flight: admission, new weights, cancellation, the context's end, memory, and errors."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import torch

from burnish.errors import InputError, RunError
from burnish.sampling import Completion, LocalEngine, SamplingParams
from tests.sampling.reference import gap, together
from tests.tiny import tiny_model

PROMPT = [5, 9, 3, 3, 17, 40, 21]


def _tokens(completions: list[Completion]) -> list[list[int]]:
    return [c.tokens.tolist() for c in completions]


@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mamba"])
def test_few_places_and_staggered_requests_change_nothing_but_the_time(architecture: str) -> None:
    """11 requests of different lengths and sizes over 5 rows: every one gets what it gets alone."""
    model = tiny_model(architecture)
    requests = [
        ({"prompt": [(3 * i + j) % 90 for j in range(2 + 3 * i)], "n": 1 + i % 4}, SamplingParams(3 + i))
        for i in range(8)
    ]
    requests += [({"prompt": PROMPT, "n": 9}, SamplingParams(6)), ({"prompt": PROMPT, "n": 1}, SamplingParams(1))]
    engine = LocalEngine(model, max_rows=5, pack_tokens=20)
    crowded = together(
        *(engine.sample(r["prompt"], p, n=r["n"], seed=1, task=i) for i, (r, p) in enumerate(requests))  # type: ignore
    )
    roomy = LocalEngine(model)
    for i, (r, p) in enumerate(requests):
        alone = roomy.sample_sync(r["prompt"], p, n=r["n"], seed=1, task=i)  # type: ignore[arg-type]
        assert _tokens(alone) == _tokens(crowded[i])
        assert max(gap(model, r["prompt"], c, p) for c in crowded[i]) < 1e-4  # type: ignore[arg-type]
    assert engine.metrics()["tokens_prefilled"] == sum(len(r["prompt"]) for r, _ in requests)  # type: ignore[arg-type]


def test_a_stop_token_ends_a_completion_and_belongs_to_it() -> None:
    engine = LocalEngine(tiny_model("llama"))
    free = engine.sample_sync(PROMPT, SamplingParams(30), n=6, seed=1, task=1)
    stop = int(free[0].tokens[4])
    stopped = engine.sample_sync(PROMPT, SamplingParams(30, stop_ids=frozenset({stop})), n=6, seed=1, task=1)
    for a, b in zip(free, stopped, strict=True):
        hits = np.flatnonzero(a.tokens == stop)
        end = int(hits[0]) + 1 if len(hits) else 30
        assert b.finish == ("stop" if len(hits) else "length")
        assert b.tokens.tolist() == a.tokens.tolist()[:end]


def test_weights_published_in_flight_take_effect_at_the_next_token() -> None:
    model = tiny_model("llama")
    engine = LocalEngine(model)
    before = engine.sample_sync(PROMPT, SamplingParams(12), n=3, seed=1, task=1)
    other = tiny_model("llama", seed=1).network.state_dict()

    async def run() -> list[Completion]:
        work = asyncio.create_task(engine.sample(PROMPT, SamplingParams(12), n=3, seed=1, task=1))
        while engine.metrics()["tokens_sampled"] < 36 + 3 * 5:
            await asyncio.sleep(0)
        engine.publish(7, other)
        return await work

    after = asyncio.run(run())
    for old, new in zip(before, after, strict=True):
        swap = int((new.versions == 0).sum())
        assert new.versions.tolist() == [0] * swap + [7] * (12 - swap) and 5 <= swap < 12
        assert new.tokens[:swap].tolist() == old.tokens[:swap].tolist()
    assert [c.tokens.tolist() for c in after] != [c.tokens.tolist() for c in before]
    assert engine.version == model.version == 7
    fresh = LocalEngine(tiny_model("llama", seed=1)).sample_sync(PROMPT, SamplingParams(5), seed=3, task=0)
    assert _tokens(engine.sample_sync(PROMPT, SamplingParams(5), seed=3, task=0)) == _tokens(fresh)


def test_the_engine_computes_with_the_learners_own_weights() -> None:
    model = tiny_model("qwen3")
    engine = LocalEngine(model)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.add_(0.05 * torch.sin(torch.arange(parameter.numel()).view_as(parameter)))
    engine.publish(1)
    (completion,) = engine.sample_sync(PROMPT, SamplingParams(8), seed=1, task=1)
    assert completion.versions.tolist() == [1] * 8
    assert gap(model, PROMPT, completion, SamplingParams(8)) < 1e-4


def test_weights_that_do_not_belong_are_refused_before_any_is_copied() -> None:
    model = tiny_model("llama")
    engine = LocalEngine(model)
    state = {k: v + 1 for k, v in model.network.state_dict().items()}
    before = {k: v.clone() for k, v in model.network.state_dict().items()}
    with pytest.raises(InputError, match="no weight 'extra'"):
        engine.publish(1, {**state, "extra": torch.zeros(1)})
    with pytest.raises(InputError, match="shape"):
        engine.publish(1, {**state, "lm_head.weight": torch.zeros(2, 2)})
    assert all(torch.equal(v, before[k]) for k, v in model.network.state_dict().items())
    engine.publish(3)
    with pytest.raises(InputError, match="older"):
        engine.publish(2)


def test_cancelling_a_task_ends_its_rows_with_what_they_have() -> None:
    engine = LocalEngine(tiny_model("llama"), max_rows=4)

    async def run() -> list[list[Completion]]:
        tasks = [
            asyncio.create_task(engine.sample(PROMPT, SamplingParams(20), n=3, seed=1, task=t)) for t in (1, 2, 3, 1)
        ]
        while engine.metrics()["decode_steps"] < 6:
            await asyncio.sleep(0)
        engine.cancel(1)
        engine.cancel(99)
        return await asyncio.gather(*tasks)

    running, other, third, queued = asyncio.run(run())
    assert {c.finish for c in running} == {c.finish for c in queued} == {"cancelled"}
    assert all(len(c.tokens) == len(c.logprobs) == 7 for c in running)
    assert all(len(c.tokens) == 0 for c in queued)
    assert {c.finish for c in other + third} == {"length"}
    alone = LocalEngine(engine.model)
    assert _tokens(other) == _tokens(alone.sample_sync(PROMPT, SamplingParams(20), n=3, seed=1, task=2))
    # what was cancelled can be continued, also where nothing had been computed
    for completion in (running[0], queued[0]):
        (more,) = engine.extend_sync(completion.session, [4], SamplingParams(5), seed=2, task=5)
        text = [*PROMPT, *completion.tokens.tolist(), 4]
        assert more.tokens.tolist() == alone.sample_sync(text, SamplingParams(5), seed=2, task=5)[0].tokens.tolist()


def test_a_full_context_ends_a_completion() -> None:
    model = tiny_model("gpt2", overrides={"n_positions": 16})
    engine = LocalEngine(model)
    completions = engine.sample_sync(PROMPT, SamplingParams(50), n=2, seed=1, task=1)
    assert all(c.finish == "context" and len(c.tokens) == 16 - len(PROMPT) for c in completions)
    (last,) = engine.sample_sync(list(range(15)), SamplingParams(50), seed=1, task=1)
    assert last.finish == "context" and len(last.tokens) == 1
    (exact,) = engine.sample_sync(PROMPT, SamplingParams(9), seed=1, task=1)
    assert exact.finish == "length"


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ({"prompt": list(range(16))}, "prompt has 16 tokens and model 'policy' has a context of 16"),
        ({"prompt": []}, "prompt is empty"),
        ({"prompt": [1, 97]}, "token 1 of the prompt is 97; the model's ids run from 0 to 96"),
        ({"prompt": [1], "n": 0}, "n must be at least 1"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_with_the_reason(call: dict[str, Any], complaint: str) -> None:
    engine = LocalEngine(tiny_model("gpt2", overrides={"n_positions": 16}))
    with pytest.raises(InputError, match=complaint):
        engine.sample_sync(params=SamplingParams(3), seed=0, task=0, **call)
    with pytest.raises(InputError, match=complaint):
        together(engine.sample(params=SamplingParams(3), seed=0, task=0, **call))


def test_an_error_in_a_step_reaches_every_waiter_and_leaves_a_usable_engine() -> None:
    model = tiny_model("llama")
    engine = LocalEngine(model, max_rows=2)
    weight = model.network.get_output_embeddings().weight  # type: ignore[union-attr]
    good = weight.detach().clone()

    async def run() -> list[Any]:
        work = [engine.sample(PROMPT, SamplingParams(9), n=2, seed=1, task=t) for t in range(4)]
        tasks = [asyncio.create_task(w) for w in work]
        while engine.metrics()["decode_steps"] < 3:
            await asyncio.sleep(0)
        with torch.no_grad():
            weight.fill_(torch.nan)
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), timeout=60)

    results = asyncio.run(run())
    assert all(isinstance(r, RunError) and "diverged" in str(r) for r in results)
    with torch.no_grad():
        weight.copy_(good)
    (completion,) = engine.sample_sync(PROMPT, SamplingParams(5), seed=1, task=0)
    assert gap(model, PROMPT, completion, SamplingParams(5)) < 1e-4


def test_a_waiter_that_is_cancelled_takes_its_request_along() -> None:
    engine = LocalEngine(tiny_model("llama"))

    async def run() -> list[Completion]:
        doomed = asyncio.create_task(engine.sample(PROMPT, SamplingParams(400), n=4, seed=1, task=1))
        kept = asyncio.create_task(engine.sample(PROMPT, SamplingParams(10), n=2, seed=1, task=2))
        while engine.metrics()["decode_steps"] < 3:
            await asyncio.sleep(0)
        doomed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doomed
        return await kept

    assert all(c.finish == "length" for c in asyncio.run(run()))
    assert engine.metrics()["tokens_sampled"] < 4 * 12 + 2 * 10


def test_the_engine_serves_one_event_loop_after_another() -> None:
    engine = LocalEngine(tiny_model("llama"))

    async def impatient() -> None:
        await asyncio.wait_for(engine.sample(PROMPT, SamplingParams(450), seed=1, task=1), timeout=0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(impatient())
    (group,) = together(engine.sample(PROMPT, SamplingParams(5), n=2, seed=1, task=1))
    assert _tokens(group) == _tokens(engine.sample_sync(PROMPT, SamplingParams(5), n=2, seed=1, task=1))


def test_a_request_beyond_the_memory_limit_fails_alone_and_says_what_it_needs() -> None:
    engine = LocalEngine(tiny_model("llama"), kv_bytes=100_000)
    small = engine.sample(PROMPT, SamplingParams(8), n=2, seed=1, task=1)
    large = engine.sample(PROMPT, SamplingParams(500), n=60, seed=1, task=2)
    after = engine.sample(PROMPT, SamplingParams(8), n=2, seed=1, task=3)

    async def run() -> list[Any]:
        return await asyncio.gather(small, large, after, return_exceptions=True)

    first, error, last = asyncio.run(run())
    assert isinstance(error, RunError)
    assert "task 2: 60 samples of up to 500 tokens after 7 prompt tokens need" in str(error)
    assert len(first) == len(last) == 2


def test_memory_holds_back_requests_until_rows_end() -> None:
    model = tiny_model("llama")
    engine = LocalEngine(model, kv_bytes=120_000)
    groups = together(*(engine.sample(PROMPT, SamplingParams(30), n=8, seed=1, task=t) for t in range(4)))
    assert engine.metrics()["kv_bytes_peak"] <= 120_000
    assert engine.metrics()["decode_steps"] > 60  # not all at once
    for t, group in enumerate(groups):
        assert _tokens(group) == _tokens(
            LocalEngine(model).sample_sync(PROMPT, SamplingParams(30), n=8, seed=1, task=t)
        )


def test_the_way_the_model_is_run_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="burnish.sampling")
    engine = LocalEngine(tiny_model("mamba"))
    engine.sample_sync(PROMPT, SamplingParams(3), seed=1, task=1)
    assert [r.getMessage() for r in caplog.records] == [f"engine of model 'policy': {engine.path_in_use}"]
