"""One prompt, one answer, one judgement: the environment in which a question without tools is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from burnish.environments.protocol import Action, Attempt, Environment, Observation
from burnish.tasks import Task
from burnish.traces import Verdict

Judge = Callable[[Task, str], Awaitable[Verdict]]
"""What an answer to a task is worth."""


class SingleTurn(Environment):
    """Shows the task's own messages and is done with the first answer; `judge` says what that is worth.

    `gone` is told when the attempt is over, judged or not.
    """

    pure = True

    def __init__(self, judge: Judge, gone: Callable[[], None] = lambda: None) -> None:
        self.judge, self.gone = judge, gone

    async def reset(self, task: Task, *, seed: int) -> Observation:
        """See `Environment.reset`."""
        messages = task.messages or ({"role": "user", "content": task.prompt},)
        return Observation(tuple(messages), tuple(task.tools or ()))

    async def step(self, action: Action) -> Observation:
        """See `Environment.step`."""
        return Observation(done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        """See `Environment.verify`."""
        return await self.judge(attempt.task, attempt.turns[-1].action.text)

    async def close(self) -> None:
        """See `Environment.close`."""
        self.gone()
