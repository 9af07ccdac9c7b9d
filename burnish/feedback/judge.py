"""Feedback: the weighted and gated sum of named rewards, set as verdicts on the members of groups."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from burnish.feedback.gates import Gate, standing
from burnish.feedback.reward import LARGEST, ROWS_FAULTS, Judged, Missing, Reward, Score
from burnish.feedback.workers.pool import Pool
from burnish.ledger import Ledger
from burnish.tasks import Task
from burnish.traces import Group, Span, Status, Verdict


class Feedback:
    """Judges completions by several rewards: reward = sum of weight x component, as far as gates let it count.

    A component that is missing makes the reward missing, since a sum without it would be another reward; behind a
    closed gate it makes no difference (burnish/feedback/gates.py). `Verdict.evidence["kinds"]` names what was wrong.
    """

    def __init__(
        self,
        rewards: Sequence[tuple[Reward, float]],
        concurrency: int = 8,
        ledger: Ledger | None = None,
        gates: Sequence[Gate] = (),
        pool: Pool | None = None,
    ) -> None:
        self.rewards = list(rewards)
        self.concurrency = concurrency
        self.ledger = Ledger() if ledger is None else ledger
        self.gates = list(gates)
        self._pool = pool

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
        self, row: str, columns: Mapping[str, Any], completions: list[str], *, role: str = "reward", settle: bool = True
    ) -> list[Verdict]:
        """Verdicts on the completions of one task, outside any group, counted under `role`. Raises as `judge` does;
        with `settle` off, whoever asks for many calls that afterwards."""
        with self.ledger.timed(role):
            verdicts = await self._verdicts(row, columns, completions, role)
        if settle:
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
        values = {name: _value(score) for name, _, score in named if not isinstance(score, Missing)}
        kinds = {name: score.kind for name, _, score in named if isinstance(score, (Judged, Missing)) and score.kind}
        terms, reasons = [], []
        for name, weight, score in named:
            state, gate = standing(name, self.gates, values)
            if state == "closed" and gate is not None:
                kinds.setdefault(gate.component, "gated")
                reasons.append(f"gate {gate.component!r} not reached ({values[gate.component]:g} < {gate.least:g})")
            elif weight == 0.0 and isinstance(score, Missing) and not self._gated_by(name):
                reasons.append(f"component {name!r} is missing, which its weight of 0 allows: {score.reason}")
            elif state == "unknown" or isinstance(score, Missing):
                lacking = name if gate is None else gate.component
                absent = next(s for n, _, s in named if n == lacking and isinstance(s, Missing))
                why = absent.reason if len(named) == 1 else f"component {lacking!r} is missing: {absent.reason}"
                return Verdict(None, absent.status, why, values, {"kinds": kinds} if kinds else {})
            else:
                terms.append(weight * values[name])
        total = math.fsum(terms)
        evidence: dict[str, Any] = {"kinds": kinds} if kinds else {}
        if details := {n: dict(s.details) for n, _, s in named if isinstance(s, Judged) and s.details}:
            evidence["details"] = details
        if not abs(total) <= LARGEST:  # neither is NaN
            reason = f"the weighted sum overflows: {values}"
            return Verdict(None, Status.VERIFIER_ERROR, reason, values, {"kinds": {**kinds, "sum": "overflow"}})
        judged = [(name, score) for name, _, score in named if isinstance(score, Judged)]
        said = [f"{name}: {s.kind}: {s.reason}" if s.reason else f"{name}: {s.kind}" for name, s in judged]
        status = max((score.status for _, score in judged), key=_GRAVITY.index, default=Status.OK)
        return Verdict(total, status, "; ".join([*said, *dict.fromkeys(reasons)]), values, evidence)

    def _gated_by(self, name: str) -> bool:
        return any(gate.component == name for gate in self.gates)

    def settle(self) -> None:
        """Raise RunError when a reward does not work at all."""
        for reward, _ in self.rewards:
            reward.settle()

    def counts(self) -> dict[str, int]:
        """What went wrong so far: "component/kind" -> how often."""
        return {f"{r.name}/{kind}": count for r, _ in self.rewards for kind, count in r.counts().items()}

    def to_resample(self, groups: Sequence[Group]) -> list[tuple[Group, int]]:
        """The members that lost their verdict to the machinery, each as its group and its place in it.

        Another sample of the same task would have its chance. Members whose row is at fault (no right answer, None
        from a function) are not among them, for another sample would meet the same. Each member is named once, where
        it first stands.
        """
        seen: set[int] = set()
        found = []
        for group, _ in _flat(groups, {}):
            for place, member in enumerate(group.members):
                if id(member) not in seen and _lost(member.verdict):
                    found.append((group, place))
                seen.add(id(member))
        return found

    def close(self) -> None:
        """End the worker processes, if there are any; the next judgement starts them again."""
        if self._pool is not None:
            self._pool.close()

    def state(self) -> dict[str, Any]:
        """The state of each reward by its name, as JSON values."""
        return {reward.name: reward.state() for reward, _ in self.rewards}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take up the state that `state` gave. A reward that is new since then keeps the state it has."""
        for reward, _ in self.rewards:
            if reward.name in state:
                reward.load(state[reward.name])


_GRAVITY = (Status.OK, Status.TASK_FAIL, Status.AGENT_ERROR, Status.TIME_LIMIT)
"""Of several components the gravest status is the verdict's."""


def _lost(verdict: Verdict | None) -> bool:
    if verdict is None or verdict.status not in (Status.INFRA_ERROR, Status.VERIFIER_ERROR):
        return False
    kinds: Mapping[str, str] = verdict.evidence.get("kinds", {})
    return not ROWS_FAULTS & set(kinds.values())


def _value(score: float | Judged) -> float:
    return score.value if isinstance(score, Judged) else score


def _flat(groups: Sequence[Group], inherited: Mapping[str, Any]) -> Iterator[tuple[Group, dict[str, Any]]]:
    for group in groups:
        columns = {**inherited, **group.columns}
        yield group, columns
        yield from _flat(group.children, columns)
