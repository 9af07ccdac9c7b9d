"""What the engine holds in memory at its peak, told before it runs. docs/memory.md has the formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from burnish.models.language_model import LanguageModel
from burnish.sampling.engine import LocalEngine
from burnish.sampling.memory import ByteBudget
from burnish.sampling.pool import Pool, rounded
from burnish.sampling.shared import _PREFIX, _WIDTH, SharedRunner


@dataclass(frozen=True)
class Work:
    """What is asked of the engine at a time: `prompts` prompts of up to `length` tokens, `samples` answers of each."""

    prompts: int
    length: int
    samples: int
    max_tokens: int
    keep: bool = True
    """Whether answers leave sessions behind."""

    @property
    def shared(self) -> int:
        """Prompt tokens whose keys the answers share; the keys of a prompt that is answered once are the row's own."""
        return self.length if self.samples > 1 else 0

    @property
    def own(self) -> int:
        """Keys of a row at its greatest length."""
        return self.length - self.shared + self.max_tokens


@dataclass(frozen=True)
class EngineMemory:
    """Bytes of an engine: what it keeps between calls, and what it needs on top while it samples."""

    held: int = 0
    """Buffers of keys and values, which stay for the next call."""
    passing: int = 0
    """Prompts' keys and values, the packed pass over them, logits and what is drawn from them, sessions that end."""


def engine_memory(engine: LocalEngine, works: Sequence[Work], *, layer_bytes: float = 0.0) -> EngineMemory:
    """The peak of an engine that does each of `works` in turn.

    `layer_bytes`: what one layer computes of a token in a pass over prompts.
    """
    scheduler = engine._scheduler
    runner, most = scheduler.runner, scheduler.max_rows
    rows = [min(most, work.prompts * work.samples) for work in works]
    logits = [_logits(engine.model, r) for r in rows]
    if not isinstance(runner, SharedRunner):  # nothing is cached, whole sequences are computed again
        again = [int(r * (w.length + w.max_tokens) * layer_bytes) for r, w in zip(rows, works, strict=True)]
        return EngineMemory(0, max(map(sum, zip(logits, again, strict=True)), default=0))
    token, passing = runner.shape.token_bytes, 0
    for index, work in enumerate(works):
        shared = rounded(work.shared, _PREFIX) if engine.deterministic else work.shared
        prefixes = min(work.prompts, -(-most // work.samples) + 1) * shared * token
        packed = min(work.prompts * work.length, max(scheduler.pack_tokens, work.length))
        ended = rows[index] * work.own * token if work.keep else 0  # a copy of its keys, for its session
        passing = max(passing, prefixes + max(logits[index] + ended, int(packed * (token + layer_bytes))))
    if engine.deterministic:  # a pool for each shape of request, instead of one for all
        held = sum(_pool(runner, r, rounded(w.own, _WIDTH)) for r, w in zip(rows, works, strict=True))
    else:
        held = _pool(runner, max(rows, default=0), max((w.own for w in works), default=0))
    return EngineMemory(min(held, runner.budget.limit), passing)


def _pool(runner: SharedRunner, rows: int, width: int) -> int:
    """Bytes of the buffers for so many rows of so many own keys."""
    pool = Pool(runner.shape, ByteBudget(0))
    return pool.bytes_of(pool.size_for(rows, width))


def _logits(model: LanguageModel, rows: int) -> int:
    """Bytes of a step's logits with the weights drawn from, which are made for 64 rows at a time."""
    wide = 8 if model.dtype == torch.float64 else 4
    low = 0 if wide == model.dtype.itemsize else model.dtype.itemsize
    return model.vocab_size * (rows * (wide + low) + 2 * min(rows, 64) * wide)
