"""Feedback: the weighted sum of named rewards, set as verdicts on the members of groups."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from burnish.feedback.reward import Missing, Reward, Score
from burnish.ledger import Ledger
from burnish.tasks import Task
from burnish.traces import Group, Span, Status, Verdict


class Feedback:
    """Judges completions by several rewards: reward = sum of weight x component.

    A component that is missing makes the reward missing, since a sum without it would be another reward.
    """

    def __init__(
        self, rewards: Sequence[tuple[Reward, float]], concurrency: int = 8, ledger: Ledger | None = None
    ) -> None:
        self.rewards = list(rewards)
        self.concurrency = concurrency
        self.ledger = Ledger() if ledger is None else ledger

    def check(self, tasks: Sequence[Task]) -> None:
        """Raise InputError, naming task and column, when judging these tasks could not work. Call before a run."""
        for reward, _ in self.rewards:
            reward.check(tasks)

    async def judge(self, groups: Sequence[Group], texts: Callable[[Span], str]) -> None:
        """Set `Span.verdict` on every member of the groups and of the groups nested in them.

        A member whose verdict already says that the machinery failed keeps it and is not judged. A nested group has
        the columns of its parent besides its own. Raises InputError when the data lacks a column, RunError when a
        reward function does not work at all.
        """
        seen: set[int] = set()
        batch = []
        for group, columns in _flat(groups, {}):
            members = [m for m in group.members if id(m) not in seen and (m.verdict is None or m.verdict.status.counts)]
            seen.update(id(member) for member in members)
            if members:
                batch.append((group.key, columns, members))
        slots = asyncio.Semaphore(self.concurrency)

        async def one(key: str, columns: Mapping[str, Any], members: list[Span]) -> None:
            async with slots:
                verdicts = await self._verdicts(key, columns, [texts(member) for member in members], "reward")
            for member, verdict in zip(members, verdicts, strict=True):
                member.verdict = verdict

        running = [asyncio.ensure_future(one(*item)) for item in batch]
        try:
            with self.ledger.timed("reward"):
                await asyncio.gather(*running)
        finally:
            for task in running:
                task.cancel()  # one has raised: the others have no taker
        self.settle()

    async def verdicts(
        self, row: str, columns: Mapping[str, Any], completions: list[str], *, role: str = "reward"
    ) -> list[Verdict]:
        """Verdicts on the completions of one task, outside any group, counted under `role`. Raises as `judge` does."""
        with self.ledger.timed(role):
            verdicts = await self._verdicts(row, columns, completions, role)
        self.settle()
        return verdicts

    async def _verdicts(self, row: str, columns: Mapping[str, Any], completions: list[str], role: str) -> list[Verdict]:
        scores = []
        for reward, _ in self.rewards:
            scores.append(await reward.score(row, columns, completions))
            if reward.calls is not None:
                self.ledger.add(role, reward.calls)
        return [self._verdict([of_reward[i] for of_reward in scores]) for i in range(len(completions))]

    def _verdict(self, scores: list[Score]) -> Verdict:
        named = [(reward.name, weight, score) for (reward, weight), score in zip(self.rewards, scores, strict=True)]
        components: dict[str, float] = {name: score for name, _, score in named if not isinstance(score, Missing)}
        for name, _, score in named:
            if isinstance(score, Missing):
                reason = score.reason if len(named) == 1 else f"component {name!r} is missing: {score.reason}"
                return Verdict(None, score.status, reason, components)
        total = math.fsum(weight * score for _, weight, score in named if not isinstance(score, Missing))
        if not math.isfinite(total):
            return Verdict(None, Status.VERIFIER_ERROR, f"the weighted sum overflows: {components}", components)
        return Verdict(total, Status.OK, components=components)

    def settle(self) -> None:
        """Raise RunError when a reward does not work at all."""
        for reward, _ in self.rewards:
            reward.settle()

    def counts(self) -> dict[str, int]:
        """What went wrong so far: "component/kind" -> how often."""
        return {f"{r.name}/{kind}": count for r, _ in self.rewards for kind, count in r.counts().items()}

    def state(self) -> dict[str, Any]:
        """The state of each reward by its name, as JSON values."""
        return {reward.name: reward.state() for reward, _ in self.rewards}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up the state that `state` gave. A reward that is new since then keeps the state it has."""
        for reward, _ in self.rewards:
            if reward.name in state:
                reward.load(state[reward.name])


def _flat(groups: Sequence[Group], inherited: Mapping[str, Any]) -> Iterator[tuple[Group, dict[str, Any]]]:
    for group in groups:
        columns = {**inherited, **group.columns}
        yield group, columns
        yield from _flat(group.children, columns)
