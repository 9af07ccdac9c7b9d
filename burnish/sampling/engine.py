"""The local engine: samples from the learner's own weights, in the learner's own process.

It drives the unmodified model through the same attention interface as the learner, so that both compute the same
function (promise E5), and shares its weights: publishing a version moves no data. docs/engine.md tells how it works.
"""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from burnish.errors import InputError, RunError
from burnish.models.flops import ModelFlops
from burnish.models.language_model import LanguageModel
from burnish.sampling.memory import ByteBudget
from burnish.sampling.probe import require_row_invariance
from burnish.sampling.protocol import Completion, SamplingParams
from burnish.sampling.requests import Request, Session, checked_tokens
from burnish.sampling.runners import PlainRunner, Runner
from burnish.sampling.scheduler import Scheduler
from burnish.sampling.shared import SharedRunner

logger = logging.getLogger(__name__)


class LocalEngine:
    """A `Sampler` over a `LanguageModel`.

    `max_rows` sequences decode at once; a request for more runs in turns. `kv_bytes` bounds the keys and values held.
    At most `pack_tokens` prompt tokens are computed in one forward pass. `deterministic` makes a completion's tokens
    and log-probabilities the same bits whatever else is in flight; it raises RunError where the machine or the model
    does not allow it.

    Use it from one event loop, or without one through `sample_sync`; it is not for several threads.
    """

    def __init__(
        self,
        model: LanguageModel,
        *,
        max_rows: int = 64,
        deterministic: bool = False,
        kv_bytes: int = 4 << 30,
        pack_tokens: int = 4096,
    ) -> None:
        if max_rows < 1:
            raise InputError(f"max_rows must be at least 1, not {max_rows}")
        self.model = model
        self.name = model.name
        self.deterministic = deterministic
        budget = ByteBudget(kv_bytes)
        runner: Runner
        if model.sharing:
            runner = SharedRunner(model, budget, max_rows=max_rows, deterministic=deterministic)
            if deterministic:
                runner.quantum = require_row_invariance(model, max_rows)
        else:
            runner = PlainRunner(model, budget, deterministic=deterministic)
        self.path_in_use = model.path_in_use if model.sharing else f"recomputed sequences: {model.path_in_use}"
        """One line for the user: how this model is run."""
        logger.info("engine of model %r: %s", self.name, self.path_in_use)
        self._scheduler = Scheduler(
            runner, max_rows, pack_tokens, model.context_length, weakref.ref(self), model.version, ModelFlops.of(model)
        )
        self._driver: asyncio.Task[None] | None = None

    @property
    def version(self) -> int:
        """Weight version of the tokens sampled from now on."""
        return self._scheduler.version

    # -- requests ------------------------------------------------------------------------------------------------

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
        keep: bool = True,
    ) -> list[Completion]:
        """See Sampler. The prompt is prefilled once for the n completions.

        Raises InputError for an empty prompt, ids outside the vocabulary, or a prompt that fills the context.
        """
        return await self._finished(self._from_prompt(prompt, params, n, seed, task, sample, keep))

    async def extend(
        self,
        session: Session,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
    ) -> list[Completion]:
        """See Sampler. Computes only the new tokens and the last one sampled before them.

        The keys and values of the session stay as they were computed, also after a later `publish`. Raises InputError
        for a session that was released or belongs to another engine, and as `sample` does.
        """
        return await self._finished(self._from_session(session, tokens, params, n, seed, task, sample))

    def sample_sync(
        self, prompt: Sequence[int], params: SamplingParams, *, n: int = 1, seed: int, task: int, sample: int = 0
    ) -> list[Completion]:
        """`sample` without an event loop."""
        return self._run(self._from_prompt(prompt, params, n, seed, task, sample))

    def extend_sync(
        self,
        session: Session,
        tokens: Sequence[int],
        params: SamplingParams,
        *,
        n: int = 1,
        seed: int,
        task: int,
        sample: int = 0,
    ) -> list[Completion]:
        """`extend` without an event loop."""
        return self._run(self._from_session(session, tokens, params, n, seed, task, sample))

    def _from_prompt(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        n: int,
        seed: int,
        task: int,
        sample: int,
        keep: bool = True,
    ) -> Request:
        history = checked_tokens(prompt, self.model.vocab_size, "prompt")
        if not history:
            raise InputError("the prompt is empty: there is no token to predict from")
        return self._submit(Request(history, None, params, n, seed, task, sample, keep))

    def _from_session(
        self, session: Session, tokens: Sequence[int], params: SamplingParams, n: int, seed: int, task: int, sample: int
    ) -> Request:
        if not isinstance(session, Session) or session.engine() is not self:
            raise InputError("extend needs the session of a completion of this engine")
        if session.released:
            raise InputError("this session was released: sample again from its whole text, or release it later")
        history = session.tokens + checked_tokens(tokens, self.model.vocab_size, "new tokens")
        return self._submit(Request(history, session.cache, params, n, seed, task, sample))

    def _submit(self, request: Request) -> Request:
        if request.n < 1:
            raise InputError(f"n must be at least 1, not {request.n}")
        limit = self.model.context_length
        if limit is not None and len(request.history) >= limit:
            raise InputError(
                f"the prompt has {len(request.history)} tokens and model {self.name!r} has a context of {limit}, which "
                "leaves no room for an answer: shorten the prompt"
            )
        self._scheduler.queue.append(request)
        return request

    # -- driving -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        started = time.perf_counter()
        self._scheduler.step()
        self._scheduler.counts.seconds += time.perf_counter() - started

    def _run(self, request: Request) -> list[Completion]:
        while not request.done:
            self._step()
        return request.result()

    async def _finished(self, request: Request) -> list[Completion]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        request.on_done = lambda: None if future.done() else future.set_result(None)
        if self._driver is None or self._driver.done() or self._driver.get_loop() is not loop:
            self._driver = loop.create_task(self._drive(), name=f"engine of {self.name}")
            # a step that fails has told every waiter: mark its error as seen, or asyncio reports it once more
            self._driver.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            await future
        finally:
            if not request.done:  # the waiter was cancelled: nobody wants the rest
                self._scheduler.cancel([request])
        return request.result()

    async def _drive(self) -> None:
        """Step while anything is pending, letting the rest of the program run between steps."""
        try:
            await asyncio.sleep(0)  # let whoever submits at the same moment do so
            while self._scheduler.pending:
                self._step()
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._scheduler.fail(RunError("the engine's event loop was shut down with requests in flight"))
            raise

    # -- weights, cancellation, sessions -------------------------------------------------------------------------

    @torch.no_grad()
    def publish(self, version: int, weights: Mapping[str, Tensor] | None = None) -> None:
        """Tokens from now on carry this version. The weights are the learner's own unless some are given to copy in.

        Rows in flight go on with the keys and values they have. Raises InputError when the version falls, or when a
        weight is unknown or has another shape; nothing is copied then.
        """
        if version < self.version:
            raise InputError(f"weight version {version} is older than the published version {self.version}")
        if weights is not None:
            own = self.model.network.state_dict()
            for name, weight in weights.items():
                if name not in own:
                    raise InputError(f"model {self.name!r} has no weight {name!r}")
                if own[name].shape != weight.shape:
                    shapes = f"{list(weight.shape)}, not {list(own[name].shape)}"
                    raise InputError(f"weight {name!r} of model {self.name!r} was published with shape {shapes}")
            for name, weight in weights.items():
                own[name].copy_(weight)
            self.model.version = version
        self._scheduler.version = version

    def cancel(self, task: int) -> None:
        """See Sampler. Their completions have finish "cancelled" and the tokens sampled so far."""
        self._scheduler.cancel([r for r in self._scheduler.requests() if r.task == task])

    def release(self, session: Session) -> None:
        """See Sampler. A session nothing refers to any longer is released by itself."""
        session.released, session.cache = True, None

    def metrics(self) -> dict[str, float]:
        """Totals since the engine was made; the bytes are of keys and values, the flops of completions that ended."""
        counts, budget = self._scheduler.counts, self._scheduler.runner.budget
        return {
            "tokens_sampled": counts.sampled,
            "tokens_prefilled": counts.prefilled,
            "tokens_reused": counts.reused,
            "decode_steps": counts.steps,
            "sessions_evicted": counts.evicted,
            "flops": counts.flops,
            "kv_bytes": budget.used,
            "kv_bytes_peak": budget.peak,
            "timing/seconds": counts.seconds,
            "timing/tokens_per_second": counts.sampled / counts.seconds if counts.seconds else 0.0,
        }
