"""Answers of one turn that rewards judge: the environment of every prompt that has no other.

A reward sees the answers of a group together, as it always has, so the attempts of a group wait for each other before
they are judged. Other groups go on being sampled meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from burnish.environments.protocol import Environment
from burnish.environments.single import SingleTurn
from burnish.feedback.judge import Feedback
from burnish.sources.attempt import Limits
from burnish.sources.calls import Silent
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces import Verdict


def single_turns(feedback: Feedback, setting: Setting, refills: int) -> Stage:
    """A stage on which each attempt is one answer, and `feedback` judges those of a prompt together."""
    slots = _Slots(feedback.concurrency)

    def makers(task: Task, key: str, n: int) -> Sequence[Callable[[], Environment]]:
        jury = Jury(feedback, slots, task, key, n)
        return [lambda place=place: jury.seat(place) for place in range(n)]

    return Stage(
        makers, True, Limits(turns=1), setting, Silent(), tools_shown=True, call_seconds=None, live=1 << 40,
        refills=refills, settle=feedback.settle, counts_steps=False,
    )  # fmt: skip


def unjudged(context: Context) -> Stage:
    """A stage on which each attempt is one answer that nobody judges."""

    async def never(task: Task, text: str) -> Verdict:
        raise AssertionError("nobody asks")

    def decode(ids: Sequence[int]) -> str:
        return str(context.format.assistant_message(ids)["content"])

    return Stage(
        lambda task, key, n: [lambda: SingleTurn(never)] * n, True, Limits(turns=1, judged=False),
        Setting(context, decode), Silent(), tools_shown=True, call_seconds=None, live=1 << 40, refills=0,
        counts_steps=False,
    )  # fmt: skip


class _Slots:
    """How many groups are judged at a time, in whatever event loop they are."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(count)

    def here(self) -> asyncio.Semaphore:
        """The semaphore of the running loop."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slots = loop, asyncio.Semaphore(self.count)
        return self._slots


class Jury:
    """Judges the answers of a group once all that will come are there."""

    def __init__(self, feedback: Feedback, slots: _Slots, task: Task, key: str, n: int) -> None:
        self.feedback, self.slots, self.task, self.key = feedback, slots, task, key
        self.expected = set(range(n))
        self.answers: dict[int, tuple[str, asyncio.Future[Verdict]]] = {}
        self.judging: asyncio.Task[None] | None = None

    def seat(self, place: int) -> SingleTurn:
        """The environment of one attempt."""

        async def judge(task: Task, text: str) -> Verdict:
            future = asyncio.get_running_loop().create_future()
            self.answers[place] = text, future
            self._gone(place)
            return await future

        return SingleTurn(judge, lambda: self._gone(place))

    def _gone(self, place: int) -> None:
        """An attempt has answered, or never will."""
        self.expected.discard(place)
        if not self.expected and self.answers and self.judging is None:
            self.judging = asyncio.ensure_future(self._judge())

    async def _judge(self) -> None:
        waiting = [self.answers[place] for place in sorted(self.answers)]
        try:
            async with self.slots.here():
                verdicts = await self.feedback.verdicts(
                    self.key, self.task.columns, [text for text, _ in waiting], settle=False
                )
        except BaseException as error:
            for _, future in waiting:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # seen, where nobody waits any longer
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), verdict in zip(waiting, verdicts, strict=True):
            if not future.done():
                future.set_result(verdict)
