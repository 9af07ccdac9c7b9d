"""The engine's keys and values are told before it runs."""

from __future__ import annotations

import asyncio

import pytest

from burnish.sampling import LocalEngine, SamplingParams
from burnish.sampling.footprint import EngineMemory, Work, engine_memory
from tests.tiny import tiny_model


def run(engine: LocalEngine, works: list[Work]) -> int:
    """Do the works, every answer at its full length; bytes of keys and values at the peak."""

    async def one(work: Work, number: int) -> None:
        params = SamplingParams(work.max_tokens)
        prompt = [5 + (number + i) % 80 for i in range(work.length)]
        for completion in await engine.sample(prompt, params, n=work.samples, seed=0, task=number):
            engine.release(completion.session)

    async def all_of(work: Work) -> None:
        await asyncio.gather(*(one(work, i) for i in range(work.prompts)))

    for work in works:
        asyncio.run(all_of(work))
    return int(engine.metrics()["kv_bytes_peak"])


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize(
    "works",
    [
        [Work(4, 40, 4, 30)],
        [Work(1, 100, 2, 5)],
        [Work(4, 40, 4, 30), Work(12, 50, 1, 20)],
        [Work(9, 20, 8, 10)],
    ],
    ids=["samples", "a long prompt", "samples and an evaluation", "more than fits at once"],
)
def test_keys_and_values_are_told(works: list[Work], deterministic: bool) -> None:
    engine = LocalEngine(tiny_model("llama"), max_rows=16, deterministic=deterministic)
    told = engine_memory(engine, works)
    peak = run(engine, works)
    assert engine.metrics()["kv_bytes"] <= told.held  # what stays
    assert 0.5 * (told.held + told.passing) <= peak <= told.held + told.passing


def test_the_limit_of_the_engine_bounds_what_is_told() -> None:
    engine = LocalEngine(tiny_model("llama"), max_rows=16, kv_bytes=1000)
    assert engine_memory(engine, [Work(4, 40, 4, 30)]).held == 1000


def test_a_model_without_a_cache_holds_none() -> None:
    engine = LocalEngine(tiny_model("mamba"), max_rows=16)
    told = engine_memory(engine, [Work(4, 40, 4, 30)], layer_bytes=100.0)
    assert told.held == 0 and told.passing >= 16 * 70 * 100
    assert engine_memory(engine, []) == EngineMemory()
