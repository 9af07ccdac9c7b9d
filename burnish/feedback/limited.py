"""A call of foreign code that may hang: awaited for a limited time, then left behind."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """How a call ended: with a value, with an error, or not in time."""

    value: Any = None
    error: BaseException | None = None
    expired: bool = False


async def call_limited(call: Callable[[], Any], seconds: float) -> Outcome:
    """Run `call` in a thread of its own, await what it returns if that is awaitable, for `seconds` in all.

    An expired coroutine is cancelled. A thread cannot be ended: an expired call runs on, in a daemon thread that does
    not keep the process alive, and its result is dropped. No signal is used, so it works in any thread.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    outcome = await _threaded(call, seconds)
    if outcome.error is None and not outcome.expired and inspect.isawaitable(outcome.value):
        return await _awaited(outcome.value, seconds - (loop.time() - start))
    return outcome


async def _threaded(call: Callable[[], Any], seconds: float) -> Outcome:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Outcome] = loop.create_future()

    def settle(outcome: Outcome) -> None:
        if not done.done():
            done.set_result(outcome)

    def work() -> None:
        try:
            outcome = Outcome(value=call())
        except BaseException as error:  # noqa: BLE001 - handed to the caller; even SystemExit must not go unseen
            outcome = Outcome(error=error)
        with suppress(RuntimeError):  # the loop was closed while an expired call ran on
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=work, name="burnish-reward", daemon=True).start()
    await asyncio.wait([done], timeout=seconds)
    return done.result() if done.done() else Outcome(expired=True)


async def _awaited(value: Any, seconds: float) -> Outcome:
    async def run() -> Outcome:
        try:
            return Outcome(value=await value)
        except (SystemExit, KeyboardInterrupt) as error:  # asyncio would let them end the whole run
            return Outcome(error=error)

    task = asyncio.ensure_future(run())
    try:
        await asyncio.wait([task], timeout=max(seconds, 0.0))
        if not task.done():
            return Outcome(expired=True)
        if task.cancelled():
            return Outcome(error=asyncio.CancelledError("the coroutine was cancelled from within"))
        error = task.exception()
        return Outcome(error=error) if error else task.result()
    finally:
        if not task.done():
            task.cancel()
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # an error after the end has no taker
