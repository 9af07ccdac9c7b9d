"""Answers of one turn that rewards judge: the environment of every prompt that has no other.

A reward sees the answers of a group together, so the attempts of a group wait for each other before they are judged.
Other groups go on being sampled meanwhile. A function that is the user's own may compare the answers of a group, so
when some were drawn anew it judges the whole group again; other kinds judge each answer by itself, and are not asked
twice where there is no such function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from burnish.environments.protocol import Environment
from burnish.environments.single import SingleTurn
from burnish.feedback.function import FunctionReward
from burnish.feedback.judge import Feedback
from burnish.sources.attempt import Limits, Result
from burnish.sources.calls import Silent
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces import Status, Verdict


def single_turns(feedback: Feedback, setting: Setting, refills: int) -> Stage:
    """A stage on which each attempt is one answer, and `feedback` judges those of a prompt together."""
    slots = _Slots(feedback.concurrency)

    compares = any(isinstance(reward, FunctionReward) for reward, _ in feedback.rewards)

    def makers(
        task: Task, key: str, places: Sequence[int], kept: Mapping[int, Sequence[Result]]
    ) -> Sequence[Callable[[], Environment]]:
        beside = {place: results[-1] for place, results in kept.items() if results and results[-1].attempt.turns}
        jury = Jury(feedback, slots, task, key, places, beside if compares else {})
        return [lambda place=place: jury.seat(place) for place in places]

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
        lambda task, key, places, kept: [lambda: SingleTurn(never)] * len(places), True, Limits(turns=1, judged=False),
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
    """Judges the answers of a group once all that will come are there, together with those in `beside`, which were
    judged before: their new verdicts take the place of the old."""

    def __init__(
        self,
        feedback: Feedback,
        slots: _Slots,
        task: Task,
        key: str,
        places: Sequence[int],
        beside: Mapping[int, Result],
    ) -> None:
        self.feedback, self.slots, self.task, self.key, self.beside = feedback, slots, task, key, beside
        self.expected = set(places)
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
        waiting = {place: future for place, (_, future) in self.answers.items()}
        texts = {place: result.attempt.turns[-1].action.text for place, result in self.beside.items()}
        texts |= {place: text for place, (text, _) in self.answers.items()}
        order = sorted(texts)
        try:
            async with self.slots.here():
                found = await self.feedback.verdicts(
                    self.key, self.task.columns, [texts[place] for place in order], settle=False
                )
        except BaseException as error:
            for future in waiting.values():
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # seen, where nobody waits any longer
            if not isinstance(error, Exception):
                raise
            return
        verdicts = self._agreed(dict(zip(order, found, strict=True)))
        for place, future in waiting.items():
            if not future.done():
                future.set_result(verdicts[place])

    def _agreed(self, verdicts: dict[int, Verdict]) -> dict[int, Verdict]:
        """The verdicts on a whole group. Where some that had a reward would lose it, the old ones stand, and the new
        answers, which were not judged together with them, have none."""
        losing = [place for place, r in self.beside.items() if _rewarded(r.verdict) and not _rewarded(verdicts[place])]
        if losing:
            reason = f"the group could not be judged again as a whole: {verdicts[losing[0]].reason}"
            apart = Verdict.missing(Status.VERIFIER_ERROR, reason)
            return {place: apart if _rewarded(verdict) else verdict for place, verdict in verdicts.items()}
        for place, result in self.beside.items():
            result.verdict = verdicts[place]
        return verdicts


def _rewarded(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.reward is not None
