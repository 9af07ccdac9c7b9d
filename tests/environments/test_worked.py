"""What an environment's seconds count: its work, and not how busy the machine is."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from burnish.environments import Action, Attempt, Environment, Observation, passed, said
from burnish.environments.guard import Guarded
from burnish.environments.worked import Reading, now, worked
from burnish.tasks import Task
from burnish.traces import Verdict

TASK = Task(prompt="a")
SWITCH = sys.getswitchinterval()


@pytest.mark.parametrize(
    ("wall", "processor", "queued", "given_up", "counted"),
    [
        (0.2, 0.2, 0.0, 0, 0.2),  # it computes, alone
        (1.0, 0.2, 0.8, 0, 0.2),  # the same, and other processes want the processor
        (1.0, 0.2, 0.3, int(0.5 / SWITCH), 0.2),  # and other threads want the interpreter
        (1.0, 0.0, 0.0, 1, 1.0 - SWITCH),  # it waits for something
        (1.0, 0.25, 0.25, 1, 0.75 - SWITCH),
        (0.1, 0.2, 0.0, 0, 0.1),  # clocks that do not agree: never more than the wall's
    ],
)
def test_what_is_taken_off_the_wall_clock(
    wall: float, processor: float, queued: float, given_up: int, counted: float
) -> None:
    before = Reading(5.0, 3.0, 2.0, 10)
    after = Reading(5.0 + wall, 3.0 + processor, 2.0 + queued, 10 + given_up)
    assert worked(before, after) == pytest.approx(counted)


def test_without_the_kernels_counts_it_is_the_wall_clock() -> None:
    assert worked(Reading(5.0), Reading(6.5)) == 1.5


class Computing(Environment):
    """Each step takes 0.1 s of processor time, whoever else wants the processor."""

    async def reset(self, task: Task, *, seed: int) -> Observation:
        return said("q")

    async def step(self, action: Action) -> Observation:
        until = time.thread_time() + 0.1
        while time.thread_time() < until:
            pass
        return Observation(done=True)

    async def verify(self, attempt: Attempt) -> Verdict:
        return passed(True)


def test_environments_that_compute_at_the_same_time_are_not_charged_for_each_other() -> None:
    async def seconds() -> list[float]:
        guarded = [Guarded(Computing, False, 60.0, [number]) for number in range(6)]
        for each in guarded:
            await each.reset(TASK, 0)
        await asyncio.gather(*(each.step(Action("")) for each in guarded))
        for each in guarded:
            await each.close()
        return [each.seconds for each in guarded]

    found = asyncio.run(seconds())
    told = now().processor is not None  # otherwise 0.6 s of wall clock
    assert min(found) >= 0.1
    assert not told or max(found) < 0.3
