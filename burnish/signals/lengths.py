"""The annotator of length shaping: it counts steps, and remembers each prompt's budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from burnish.signals import shaping
from burnish.signals.credit import sampled_tokens
from burnish.signals.rewards import critic_reward, members_of
from burnish.signals.spec import ShapingSpec
from burnish.traces import Group

Floats = npt.NDArray[np.float64]


class Shaping:
    """Writes `verdict.evidence["shaping"]` of each member that has a reward; what stood there of the rule is replaced.

    A budget is a percentile of the lengths of a prompt's right answers, from the first step in which it has any. Steps
    and budgets are part of a checkpoint.
    """

    def __init__(self, spec: ShapingSpec) -> None:
        self.spec, self.settings = spec, spec.settings
        self.step = 0
        self.budgets: dict[str, float] = {}

    def __call__(self, groups: Sequence[Group]) -> None:
        for group in groups:
            members = members_of(group)
            rewards = np.array([critic_reward(m) for m in members])
            lengths = np.array([sampled_tokens(m, self.spec.learner) for m in members], dtype=np.float64)
            budget = self._budget(group, rewards, lengths)
            added = (
                self._added(rewards, lengths, budget) if self.step >= self.settings.after else np.zeros(len(members))
            )
            for member, reward, value in zip(members, rewards, added, strict=True):
                if member.verdict is not None and not np.isnan(reward):
                    written = {self.settings.rule: float(self.settings.coefficient * value)}
                    member.verdict.evidence["shaping"] = written
        self.step += 1

    def _added(self, rewards: Floats, lengths: Floats, budget: float) -> Floats:
        s = self.settings
        if s.rule == "soft_overlong":
            longest = float(s.longest or self.spec.longest)
            return shaping.soft_overlong(rewards, lengths, longest, float(s.buffer or max(1.0, longest / 5)))
        if s.rule == "relative":
            return shaping.relative(rewards, lengths, s.right)
        if s.rule == "among_right":
            return shaping.among_right(rewards, lengths, s.right)
        if s.rule == "concave":
            return shaping.concave(rewards, lengths, s.rate, s.power)
        if s.rule == "toggle":
            free = (self.step - s.after) // s.every % 2 == 0
            return np.zeros(len(rewards)) if free else shaping.toggled(rewards, lengths, s.right, budget, s.accuracy)
        done = min(1.0, (self.step - s.after) / s.steps)
        return shaping.over_budget(rewards, lengths, budget * (s.first + done * (s.last - s.first)))

    def _budget(self, group: Group, rewards: Floats, lengths: Floats) -> float:
        """The budget of a group's prompt; NaN before it has a right answer, and for a rule without budgets."""
        if self.settings.rule not in ("toggle", "effort") or not group.members:
            return float("nan")
        task = str(group.members[0].trace.meta.get("task", group.key))
        if task not in self.budgets:
            found = shaping.right_length(rewards, lengths, self.settings.right, self.settings.percentile)
            if not np.isnan(found):
                self.budgets[task] = found
        return self.budgets.get(task, float("nan"))

    def state(self) -> dict[str, Any]:
        """Steps done, and budgets by task."""
        return {"step": self.step, "budgets": dict(self.budgets)}

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self.step, self.budgets = int(state["step"]), dict(state["budgets"])
