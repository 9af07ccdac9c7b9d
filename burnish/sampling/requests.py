"""The engine's bookkeeping: requests, the rows they become, and the sessions that completions leave behind."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.models.flops import ModelFlops
from burnish.sampling.protocol import Completion, Finish, SamplingParams
from burnish.traces import Support


@dataclass(eq=False)
class Session:
    """A finished sequence that can be continued: its ids, and its keys and values while memory allows."""

    engine: weakref.ref[Any]
    tokens: list[int]
    """Every id, from the first of the prompt to the last sampled one."""
    cache: Any
    """Keys and values of a leading part of the tokens; None when they were given up to make room."""
    released: bool = False


@dataclass(eq=False)
class Request:
    """n samples of one sequence."""

    history: list[int]
    """Every id before the first sampled one."""
    cache: Any
    """What is cached of the history when the request comes in, and the whole of it once prefilled."""
    params: SamplingParams
    n: int
    seed: int
    task: int
    sample: int
    keep: bool = True
    """Whether its completions leave sessions behind."""
    rows: list[Row] = field(default_factory=list)
    done: bool = False
    error: BaseException | None = None
    prefilled: int = 0
    """Tokens of the history that were computed."""
    on_done: Callable[[], None] | None = None
    _completions: dict[int, Completion] = field(default_factory=dict)

    def start(self) -> list[Row]:
        """Make the rows."""
        self.rows = [Row(self, self.sample + i) for i in range(self.n)]
        return self.rows

    def complete(self, row: Row, completion: Completion) -> None:
        """A row has ended; the request is done when all have."""
        self._completions[row.sample - self.sample] = completion
        if len(self._completions) == self.n:
            self._end()

    def fail(self, error: BaseException) -> None:
        """End the request with an error, which its waiter will meet."""
        if not self.done:
            self.error = error
            self._end()

    def _end(self) -> None:
        self.done = True
        self.cache, self.rows = None, []  # rows refer back here: break the cycle so that memory goes at once
        if self.on_done is not None:
            self.on_done()

    def result(self) -> list[Completion]:
        """The completions in order. Raises the error the request failed with."""
        if self.error is not None:
            raise self.error
        return [self._completions[i] for i in range(self.n)]


@dataclass(eq=False)
class Row:
    """One sample on its way."""

    request: Request
    sample: int
    place: Any = None
    """Where the runner keeps the row's keys; None before it has a place."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    kept: list[npt.NDArray[np.int32] | None] = field(default_factory=list)

    @property
    def position(self) -> int:
        """Place of the next token in the whole sequence."""
        return len(self.request.history) + len(self.tokens)

    def append(self, token: int, logprob: float, version: int, kept: npt.NDArray[np.int32] | None) -> None:
        """Take a sampled token."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.versions.append(version)
        self.kept.append(kept)

    def finish(self, context_length: int | None) -> Finish | None:
        """Why the row has ended after its last token, or None."""
        if self.tokens[-1] in self.request.params.stop_ids:
            return "stop"
        if len(self.tokens) >= self.request.params.max_tokens:
            return "length"
        if context_length is not None and self.position >= context_length:
            return "context"
        return None

    def completion(self, finish: Finish, session: Session | None, flops: ModelFlops) -> Completion:
        """What the sampler hands out."""
        params = self.request.params
        prefilled, operations = self._cost(flops)
        return Completion(
            tokens=np.array(self.tokens, dtype=np.int32),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            versions=np.array(self.versions, dtype=np.int32),
            finish=finish,
            support=_support(self.kept) if params.truncates else None,
            greedy=params.greedy,
            session=session,
            prefilled=prefilled,
            flops=operations,
        )

    def _cost(self, flops: ModelFlops) -> tuple[int, int]:
        """Prompt tokens computed, and operations. The first sample has the prompt's; the last token is never fed."""
        start, decoded = len(self.request.history), max(0, len(self.tokens) - 1)
        operations = flops.forward([(start, start + decoded)], decoded)
        prefilled = self.request.prefilled if self.sample == self.request.sample else 0
        if prefilled:
            operations += flops.forward([(start - prefilled, start)], 1)
        return prefilled, operations


def _support(kept: Sequence[npt.NDArray[np.int32] | None]) -> Support:
    sets = [np.zeros(0, np.int32) if ids is None else ids for ids in kept]
    offsets = np.cumsum([0, *(len(ids) for ids in sets)]).astype(np.int64)
    return Support(offsets, np.concatenate([np.zeros(0, np.int32), *sets]))


def checked_tokens(tokens: Sequence[int], vocabulary: int, what: str) -> list[int]:
    """Token ids as integers. Raises InputError for one outside the vocabulary."""
    ids = [int(token) for token in tokens]
    for place, token in enumerate(ids):
        if not 0 <= token < vocabulary:
            raise InputError(f"token {place} of the {what} is {token}; the model's ids run from 0 to {vocabulary - 1}")
    return ids
