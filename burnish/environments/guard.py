"""An environment as an attempt uses it: whatever raises, hangs or answers nonsense in it becomes one kind of fault.

An environment that is not `pure` gets a thread with an event loop of its own, so that one which blocks for ever holds
nobody else up, and its answers go through the run's journal. No torch here.
"""

from __future__ import annotations

import asyncio
import copy
import threading
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from burnish.environments.answers import (
    EnvironmentFault,
    checked_environment,
    checked_observation,
    checked_verdict,
    read,
    written,
)
from burnish.environments.protocol import Action, Attempt, Environment, Observation
from burnish.environments.worked import at_once, now, worked
from burnish.errors import BurnishError
from burnish.outside import Direct, Outside
from burnish.tasks import Task
from burnish.traces import Verdict

_FRAMES = 6


@dataclass
class Guarded:
    """One environment of one attempt. `asked` and `name` make its questions to the journal differ from all others."""

    make: Callable[[], Environment]
    pure: bool
    seconds_a_call: float | None
    """How long a call may take; None: as long as it takes."""
    name: Sequence[Any] = ()
    outside: Outside = field(default_factory=Direct)
    replayable: bool = True
    """Whether calls that an earlier life of the run made may be made again (`Environment.replayable`)."""
    seconds: float = 0.0
    """How long the environment has worked (burnish/environments/worked.py)."""
    trace: str = ""
    """Of a fault, the end of its traceback."""
    _environment: Environment | None = None
    _thread: _LoopThread | None = None
    _asked: int = 0
    _undelivered: list[tuple[str, Callable[[Environment], Awaitable[Any]], Any]] = field(default_factory=list)
    """Calls that the journal answered, which the environment itself has not seen."""

    async def reset(self, task: Task, seed: int) -> Observation:
        """See `Environment.reset`. Raises EnvironmentFault, as all the others do."""
        answer = await self._ask("reset", [task.id, seed], lambda e: e.reset(task, seed=seed))
        return checked_observation("reset", answer)

    async def step(self, action: Action) -> Observation:
        """See `Environment.step`."""
        question = [action.text, [[call.name, dict(call.arguments)] for call in action.calls]]
        return checked_observation("step", await self._ask("step", question, lambda e: e.step(action)))

    async def verify(self, attempt: Attempt) -> Verdict:
        """See `Environment.verify`."""
        question = [attempt.ended, len(attempt.turns), attempt.answer]
        return checked_verdict(await self._ask("verify", question, lambda e: e.verify(attempt)))

    async def snapshot(self, name: Sequence[Any]) -> Guarded:
        """See `Environment.snapshot`; the copy asks the journal under a name of its own."""
        twin = copy.copy(self)
        twin.name, twin._asked, twin._undelivered, twin._thread = name, 0, list(self._undelivered), None
        if self._environment is not None:
            given = await self._call("snapshot", lambda e: e.snapshot())
            twin._environment = checked_environment(given, self._environment)
        return twin

    async def close(self) -> None:
        """See `Environment.close`. An environment that nothing was asked of is not there to close."""
        try:
            if self._environment is not None:
                await self._call("close", lambda e: e.close())
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Give the thread up; one that blocks ends with the process."""
        self._environment = None
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    # -- the journal ---------------------------------------------------------------------------------------------

    async def _ask(self, method: str, question: Any, call: Callable[[Environment], Awaitable[Any]]) -> Any:
        if self.pure:
            return await self._call(method, call)
        asked = [*self.name, self._asked, question]
        self._asked += 1
        live = False

        async def ask() -> dict[str, Any]:
            nonlocal live
            live = True
            try:
                await self._deliver()
                return {"answer": written(method, await self._call(method, call)), "seconds": round(self.seconds, 6)}
            except EnvironmentFault as fault:
                return {"fault": [fault.method, fault.reason, fault.trace], "seconds": round(self.seconds, 6)}

        answer = await self.outside.ask(f"environment/{method}", asked, ask)
        self.seconds = float(answer["seconds"])
        if "fault" in answer:
            raise EnvironmentFault(*answer["fault"])
        if not live:
            self._undelivered.append((method, call, answer["answer"]))
        return read(method, answer["answer"])

    async def _deliver(self) -> None:
        """Bring a fresh environment to where the journal's answers have it. Raises where it comes to another place, and
        where it may not be asked twice. The clock does not run: what the calls took was counted when they were made.
        """
        if self._undelivered and not self.replayable:
            method = self._undelivered[-1][0]
            raise EnvironmentFault(
                method, "the run was interrupted after this call, which may not be made again (replayable = False)"
            )
        seconds = self.seconds
        while self._undelivered:
            method, call, recorded = self._undelivered.pop(0)
            if written(method, await self._call(method, call)) != recorded:
                raise EnvironmentFault(
                    method, "answered otherwise than before the run was interrupted, so this attempt cannot go on"
                )
        self.seconds = seconds

    # -- the call ------------------------------------------------------------------------------------------------

    async def _call(self, method: str, call: Callable[[Environment], Awaitable[Any]]) -> Any:
        """Run a call of the environment where it belongs, for a limited time."""

        async def timed() -> tuple[Any, float]:
            clocks = at_once if self.pure else now
            started = clocks()
            if self._environment is None:
                self._environment = self.make()
            answer = await call(self._environment)
            return answer, worked(started, clocks())

        if self.pure:
            return await self._here(method, timed())
        self._thread = self._thread or _LoopThread()
        work = self._thread.run(timed())
        try:
            done, _ = await asyncio.wait([work], timeout=self.seconds_a_call)
        except asyncio.CancelledError:
            work.cancel()
            raise
        if not done:
            work.cancel()
            work.add_done_callback(lambda late: late.cancelled() or late.exception())  # an end after the end
            raise self._hung(method)
        if work.cancelled():
            raise EnvironmentFault(method, "was cancelled from within")
        error = work.exception()
        if error is not None:
            raise _raised(method, error)
        answer, seconds = work.result()
        self.seconds += seconds
        return answer

    async def _here(self, method: str, work: Coroutine[Any, Any, tuple[Any, float]]) -> Any:
        """Run a call of a pure environment; without a task of its own, since most are over at once."""
        limit = None if self.seconds_a_call is None else asyncio.timeout(self.seconds_a_call)
        try:
            if limit is None:
                answer, seconds = await work
            else:
                async with limit:
                    answer, seconds = await work
        except BurnishError:  # of what judges for it: about the data, or a judge that does not work at all
            raise
        except (Exception, SystemExit) as error:  # whatever an environment raises is the machinery's fault
            late = limit is not None and limit.expired()
            raise (self._hung(method) if late else _raised(method, error)) from error
        self.seconds += seconds
        return answer

    def _hung(self, method: str) -> EnvironmentFault:
        assert self.seconds_a_call is not None  # without a limit nothing is late
        self.seconds += self.seconds_a_call
        self.abandon()
        return EnvironmentFault(method, f"did not answer within {self.seconds_a_call:g} s")


def _raised(method: str, error: BaseException) -> EnvironmentFault:
    if isinstance(error, EnvironmentFault):
        return error
    stack = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - an error that cannot say what it is
        said = "(it cannot be written out)"
    trace = "".join([*traceback.format_list(stack), f"{type(error).__name__}: {said}"]).rstrip()
    return EnvironmentFault(method, f"raised {type(error).__name__}: {said}", trace)


class _LoopThread:
    """A daemon thread that runs an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._work, name="burnish-environment", daemon=True).start()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def run(self, work: Any) -> asyncio.Future[Any]:
        """Start a coroutine there; its end is told here."""

        async def shielded() -> Any:
            try:
                return await work
            except (KeyboardInterrupt, SystemExit) as error:  # they would end the loop and nobody would hear of it
                raise RuntimeError(f"{type(error).__name__}: {error}") from error

        return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(shielded(), self._loop))

    def stop(self) -> None:
        """End the loop once it is free."""
        with suppress(RuntimeError):  # it has ended
            self._loop.call_soon_threadsafe(self._loop.stop)
