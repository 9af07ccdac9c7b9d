"""Which rows run: a queue in order of submission, rows that wait for a place, rows in flight; one token a step."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from burnish.errors import RunError
from burnish.models.flops import ModelFlops
from burnish.randomness import counter_uniform
from burnish.sampling.draw import draw
from burnish.sampling.protocol import Finish
from burnish.sampling.requests import Request, Row, Session
from burnish.sampling.runners import Runner

_DRAWS_AT_ONCE = 64


@dataclass
class Counts:
    """What the engine has done so far."""

    sampled: int = 0
    prefilled: int = 0
    reused: int = 0
    """Tokens of continued sessions that were still cached."""
    steps: int = 0
    evicted: int = 0
    flops: int = 0
    """Of finished completions."""
    seconds: float = 0.0


@dataclass
class Scheduler:
    """Admits requests first come first served, a row at a time, and steps all rows together.

    Memory: a request is admitted only when the rows in flight and its own can run to their greatest lengths within the
    budget's limit; sessions at rest give up their caches first, the oldest first.
    """

    runner: Runner
    max_rows: int
    pack_tokens: int
    context_length: int | None
    engine: weakref.ref
    version: int
    flops: ModelFlops
    counts: Counts = field(default_factory=Counts)
    queue: deque[Request] = field(default_factory=deque)
    ready: deque[Row] = field(default_factory=deque)
    """Prefilled, with a first token, waiting for a place."""
    active: set[Row] = field(default_factory=set)
    sessions: weakref.WeakValueDictionary[int, Session] = field(default_factory=weakref.WeakValueDictionary)
    """Sessions by order of creation."""
    _made: int = 0

    @property
    def pending(self) -> bool:
        """Whether anything is left to do."""
        return bool(self.queue or self.ready or self.active)

    # -- a step --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def step(self) -> None:
        """Admit what fits and sample one token for every row. An error ends every request with it and is raised."""
        try:
            self._admit()
            if self.active:
                rows, logits = self.runner.decode()
                self.counts.steps += 1
                self._take(rows, logits)
        except BaseException as error:
            self.fail(error)
            raise

    def _admit(self) -> None:
        while len(self.active) < self.max_rows:
            if self.ready:
                free = self.max_rows - len(self.active)
                entering = [self.ready.popleft() for _ in range(min(free, len(self.ready)))]
                self.runner.enter(entering)
                self.active.update(entering)
                continue
            batch = self._next_batch()
            if not batch:
                return
            for request in batch:
                known = 0 if request.cache is None else request.cache.length
                self.counts.reused += known
                request.prefilled = len(request.history) - known
            logits, computed = self.runner.prefill(batch)
            self.counts.prefilled += computed
            rows = [row for request in batch for row in request.start()]
            self.ready.extend(rows)
            self._take(rows, logits, np.repeat(np.arange(len(batch)), [request.n for request in batch]))

    def _next_batch(self) -> list[Request]:
        """Requests from the head of the queue to fill the free places, and no more than fit into memory."""
        batch: list[Request] = []
        free, tokens = self.max_rows - len(self.active), 0
        while self.queue and free > 0:
            request = self.queue[0]
            tokens += len(request.history) - (0 if request.cache is None else request.cache.length)
            if batch and tokens > self.pack_tokens:
                break
            if not self._room([*batch, request]):
                if batch or self.active:
                    break  # rows in flight will make room
                self.queue.popleft().fail(self._too_large(request))
                tokens = 0
                continue
            batch.append(self.queue.popleft())
            free -= request.n
        return batch

    def _room(self, batch: list[Request], more: int = 0) -> bool:
        """Whether a batch and `more` bytes fit beside the rows in flight, all rows at their greatest lengths.

        Sessions at rest make way, the oldest first.
        """
        budget, need = self.runner.budget, self.runner.need(batch) + more
        if budget.used + need <= budget.limit:
            return True
        self.runner.trim()
        need = self.runner.need(batch) + more
        in_use = {id(request.cache) for request in (*batch, *self.queue)}
        for session in list(self.sessions.values()):
            if budget.used + need <= budget.limit:
                break
            if session.cache is not None and id(session.cache) not in in_use:
                session.cache = None
                self.counts.evicted += 1
        return budget.used + need <= budget.limit

    def _too_large(self, request: Request) -> RunError:
        need, limit = (f"{n / 2**20:.4g} MiB" for n in (self.runner.need([request]), self.runner.budget.limit))
        return RunError(
            f"task {request.task}: {request.n} samples of up to {request.params.max_tokens} tokens after "
            f"{len(request.history)} prompt tokens need {need} of keys and values, the engine's limit "
            f"is {limit}: lower max_tokens or n, or raise kv_bytes"
        )

    def _take(self, rows: Sequence[Row], logits: Tensor, source: np.ndarray | None = None) -> None:
        """Draw each row's next token, from its own row of the logits or from row `source[i]`."""
        ended: list[tuple[Row, Finish]] = []
        for start in range(0, len(rows), _DRAWS_AT_ONCE):
            part = rows[start : start + _DRAWS_AT_ONCE]
            if source is None:
                near = logits[start : start + len(part)]
            else:
                near = logits[torch.from_numpy(source[start : start + len(part)])]
            requests = [row.request for row in part]
            drawn = draw(near, self._uniforms(part), [request.params for request in requests])
            for i, row in enumerate(part):
                row.append(int(drawn.tokens[i]), float(drawn.logprobs[i]), self.version, drawn.kept[i])
                finish = row.finish(self.context_length)
                if finish is not None:
                    ended.append((row, finish))
        self.counts.sampled += len(rows)
        self._end(ended)

    @staticmethod
    def _uniforms(rows: Sequence[Row]) -> np.ndarray:
        numbers = ([row.request.seed, row.request.task, row.sample, row.position] for row in rows)
        wrapped = np.array([[x % (1 << 64) for x in row] for row in numbers], dtype=np.uint64)
        return counter_uniform(*wrapped.T)

    # -- endings -------------------------------------------------------------------------------------------------

    def _end(self, ended: Sequence[tuple[Row, Finish]]) -> None:
        if not ended:
            return
        gone = {row for row, _ in ended}
        self._room([], self.runner.held(list(gone)))
        caches = self.runner.leave([row for row, _ in ended])
        if not gone <= self.active:
            self.ready = deque(row for row in self.ready if row not in gone)
        self.active -= gone
        for (row, finish), cache in zip(ended, caches, strict=True):
            session = None
            if row.request.keep:
                session = Session(self.engine, [*row.request.history, *row.tokens], cache)
                self.sessions[self._made] = session
                self._made += 1
            self._complete(row, finish, session)
        self._room([])  # the rows in flight may need what the new sessions took

    def _complete(self, row: Row, finish: Finish, session: Session | None) -> None:
        completion = row.completion(finish, session, self.flops)
        self.counts.flops += completion.flops or 0
        row.request.complete(row, completion)

    def cancel(self, chosen: Sequence[Request]) -> None:
        """End requests with what they have."""
        for request in chosen:
            if request in self.queue:
                self.queue.remove(request)
                request.start()
            self._end([(row, "cancelled") for row in request.rows if row in self.active or row in self.ready])
            if not request.done:
                for row in request.rows:  # never started: nothing is cached
                    session = Session(self.engine, list(request.history), None) if request.keep else None
                    self._complete(row, "cancelled", session)

    def requests(self) -> list[Request]:
        """Every request that is not done, in order of submission as far as it is known."""
        started = dict.fromkeys(row.request for row in (*self.active, *self.ready))
        return [*started, *self.queue]

    def fail(self, error: BaseException) -> None:
        """End everything with an error; the engine is empty afterwards and can be used again."""
        requests = self.requests()
        self.queue.clear()
        self.ready.clear()
        self.active.clear()
        self.runner.clear()
        for request in requests:
            request.fail(error)
