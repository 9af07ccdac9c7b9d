"""Verifiers whose checks run in worker processes, within limits of time and memory."""

from __future__ import annotations

import asyncio
import importlib.util
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from burnish.errors import InputError
from burnish.feedback.reward import Judged, Missing, Score, from_written, written
from burnish.feedback.verifiers.keyed import Keyed
from burnish.feedback.verifiers.spec import LimitedSpec
from burnish.feedback.workers.pool import Answer, Job, Pool
from burnish.outside import Direct, Outside
from burnish.tasks import Task
from burnish.traces import Status

_STATUSES = {
    "time_limit": Status.TIME_LIMIT,
    **dict.fromkeys(("memory_limit", "crashed", "too_deep", "number_too_large", "unsafe"), Status.AGENT_ERROR),
    **dict.fromkeys(("broken_json", "unknown_tool", "wrong_type", "too_many_calls"), Status.AGENT_ERROR),
}
"""Status of a score by its kind; any other is an ordinary answer."""


class Pooled(Keyed):
    """Base of the verifiers that ask `pool`: one job for each text.

    When a check takes long or its worker is lost depends on the machine, so the scores of a group go through the
    journal of the run (`outside`) and come out the same when it is resumed (promise E2).
    """

    check_name: str
    """The check: "module:function"."""

    library: str | None = None
    """The library that it needs, as it is imported."""

    def __init__(self, spec: LimitedSpec, pool: Pool, outside: Outside | None = None) -> None:
        super().__init__(spec.name or spec.kind)
        self.spec, self.pool = spec, pool
        self.outside: Outside = outside or Direct()

    def check(self, tasks: Sequence[Task]) -> None:
        """Raises InputError when the library is not installed, or a task lacks what the reward compares with."""
        if self.library is not None:
            need(self.library, f"the {self.spec.kind} reward")
        super().check(tasks)

    @abstractmethod
    def _argument(self, key: Any, text: str) -> dict[str, Any]:
        """What the check is given for one text."""

    async def _scores(self, row: str, key: Any, texts: list[str]) -> list[Score]:
        arguments = [self._argument(key, text) for text in texts]

        async def ask() -> list[Any]:
            jobs = (
                Job(self.check_name, each, self.spec.time_limit, self.spec.memory_limit << 20) for each in arguments
            )
            answers = await asyncio.gather(*(asyncio.wrap_future(self.pool.submit(job)) for job in jobs))
            return [written(as_score(answer, row)) for answer in answers]

        return [from_written(each) for each in await self.outside.ask(f"reward/{self.name}", [row, arguments], ask)]


def need(library: str, whoever: str) -> None:
    """Raises InputError when a library is not installed."""
    if importlib.util.find_spec(library) is None:
        raise InputError(f"{whoever} needs the library {library}, which is not installed; pip install 'burnish[tasks]'")


def as_score(answer: Answer, row: str) -> Score:
    """A worker's answer as a score: missing where it names the machinery's fault or the row's."""
    if "missing" in answer:
        return Missing(Status.VERIFIER_ERROR, f"task {row}: {answer['missing']}: {answer['reason']}", answer["missing"])
    kind = answer["kind"]
    if not kind:
        return float(answer["value"])
    return Judged(float(answer["value"]), kind, answer["reason"], _STATUSES.get(kind, Status.OK))
