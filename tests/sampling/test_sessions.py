"""Continuing: sessions keep what was computed, share it among branches, and let go of it."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.sampling import LocalEngine, SamplingParams
from tests.sampling.reference import gap, together
from tests.tiny import tiny_model

PROMPT = [5, 9, 3, 3, 17, 40, 21, 8, 2, 11, 60]
PARAMS = SamplingParams(10)


def test_a_group_of_8_prefills_its_512_token_prompt_once() -> None:
    model = tiny_model("llama", overrides={"max_position_embeddings": 1024})
    engine = LocalEngine(model)
    prompt = [(7 * i) % 90 for i in range(512)]
    group = engine.sample_sync(prompt, SamplingParams(6), n=8, seed=1, task=1)
    metrics = engine.metrics()
    assert metrics["tokens_prefilled"] == 512
    assert metrics["tokens_sampled"] == 48
    assert len({tuple(c.tokens.tolist()) for c in group}) == 8
    assert max(gap(model, prompt, c, PARAMS) for c in group) < 1e-4
    # one prompt and eight answers are held, not eight of each (llama: 2 layers, 2 key heads of 8)
    token_bytes = 2 * 2 * 2 * 8 * 4
    assert metrics["kv_bytes_peak"] < (512 + 2 * 8 * 32) * token_bytes


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "mamba"])
def test_a_continuation_equals_sampling_from_the_whole_text(architecture: str) -> None:
    """Same random numbers, so the same tokens: over three turns, from a group and from a single sample."""
    model = tiny_model(architecture)
    engine = LocalEngine(model)
    for n in (1, 3):
        first = engine.sample_sync(PROMPT, PARAMS, n=n, seed=1, task=n)[-1]
        text, session = [*PROMPT, *first.tokens.tolist()], first.session
        for turn in range(3):
            new = [10 + turn, 11, 12]
            (continued,) = engine.extend_sync(session, new, PARAMS, seed=1, task=n, sample=turn)
            (whole,) = engine.sample_sync([*text, *new], PARAMS, seed=1, task=n, sample=turn)
            assert continued.tokens.tolist() == whole.tokens.tolist()
            assert np.abs(continued.logprobs - whole.logprobs).max() < 1e-5
            text, session = [*text, *new, *continued.tokens.tolist()], continued.session


def test_a_continuation_computes_only_what_is_new() -> None:
    engine = LocalEngine(tiny_model("llama"))
    group = engine.sample_sync(PROMPT, PARAMS, n=4, seed=1, task=1)
    before = engine.metrics()
    together(*(engine.extend(c.session, [1, 2, 3], PARAMS, seed=1, task=1, sample=i) for i, c in enumerate(group)))
    after = engine.metrics()
    # each computes its three new tokens and the last sampled one, which had not been fed yet
    assert after["tokens_prefilled"] - before["tokens_prefilled"] == 4 * (3 + 1)
    assert after["tokens_reused"] == 4 * (len(PROMPT) + 10 - 1)


def test_branches_share_the_session_and_leave_it_usable() -> None:
    engine = LocalEngine(tiny_model("mistral"))
    (first,) = engine.sample_sync(PROMPT, PARAMS, seed=1, task=1)
    branches = engine.extend_sync(first.session, [4, 4], PARAMS, n=5, seed=2, task=1)
    assert len({tuple(b.tokens.tolist()) for b in branches}) == 5
    again = engine.extend_sync(first.session, [4, 4], PARAMS, n=5, seed=2, task=1)
    assert [b.tokens.tolist() for b in branches] == [b.tokens.tolist() for b in again]
    nothing_new = engine.extend_sync(first.session, [], PARAMS, n=2, seed=2, task=1)
    assert engine.metrics()["tokens_prefilled"] == len(PROMPT) + 3 + 3 + 1
    assert all(len(c.tokens) == 10 for c in nothing_new)


def test_a_released_or_forgotten_session_gives_its_memory_back() -> None:
    engine = LocalEngine(tiny_model("llama"))
    kept = engine.sample_sync(PROMPT, PARAMS, n=2, seed=1, task=1)
    full = engine.metrics()["kv_bytes"]
    engine.release(kept[0].session)
    after_release = engine.metrics()["kv_bytes"]
    assert after_release < full
    with pytest.raises(InputError, match="released"):
        engine.extend_sync(kept[0].session, [1], PARAMS, seed=1, task=1)
    del kept
    gc.collect()
    assert engine.metrics()["kv_bytes"] < after_release


def test_answers_that_need_no_continuing_leave_no_keys_behind_and_are_the_same() -> None:
    model, asked = tiny_model("llama"), {"n": 3, "seed": 1, "task": 1}
    keeps, forgets = LocalEngine(model), LocalEngine(model)
    (kept,) = together(keeps.sample(PROMPT, PARAMS, **asked))
    (gone,) = together(forgets.sample(PROMPT, PARAMS, **asked, keep=False))
    assert [c.tokens.tolist() for c in kept] == [c.tokens.tolist() for c in gone]
    assert all(c.session is None for c in gone) and all(c.session is not None for c in kept)
    assert forgets.metrics()["kv_bytes"] < keeps.metrics()["kv_bytes"]


def test_a_session_of_another_engine_is_refused() -> None:
    model = tiny_model("llama")
    (completion,) = LocalEngine(model).sample_sync(PROMPT, PARAMS, seed=1, task=1)
    with pytest.raises(InputError, match="of this engine"):
        LocalEngine(model).extend_sync(completion.session, [1], PARAMS, seed=1, task=1)


def test_idle_sessions_make_room_and_are_computed_again_when_continued() -> None:
    model = tiny_model("llama")
    roomy = LocalEngine(model)
    tight = LocalEngine(model, kv_bytes=140_000)
    for engine in (roomy, tight):
        engine.completions = [  # type: ignore[attr-defined]
            engine.sample_sync([*PROMPT, i], PARAMS, n=2, seed=1, task=i)[0] for i in range(16)
        ]
    assert tight.metrics()["sessions_evicted"] > 0
    assert tight.metrics()["kv_bytes_peak"] <= 140_000 < roomy.metrics()["kv_bytes_peak"]
    for a, b in zip(roomy.completions, tight.completions, strict=True):  # type: ignore[attr-defined]
        (x,) = roomy.extend_sync(a.session, [3, 2], PARAMS, seed=5, task=0)
        (y,) = tight.extend_sync(b.session, [3, 2], PARAMS, seed=5, task=0)
        assert x.tokens.tolist() == y.tokens.tolist()
