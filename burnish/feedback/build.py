"""From what a recipe says about judging to the thing that judges."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from burnish.errors import InputError
from burnish.feedback.function import FunctionReward
from burnish.feedback.judge import Feedback
from burnish.feedback.numeric import FormatReward, NumericReward
from burnish.feedback.reward import Reward
from burnish.feedback.spec import FeedbackSpec, FormatSpec, FunctionSpec, NumericSpec
from burnish.ledger import Ledger
from burnish.outside import Outside


def build(
    spec: FeedbackSpec, base: Path | None = None, *, ledger: Ledger | None = None, outside: Outside | None = None
) -> Feedback:
    """The feedback a spec describes; "file.py:name" is taken relative to `base` (the current folder by default).
    Foreign code is asked through `outside`, the journal of a run.

    Raises InputError when a function cannot be loaded, or when two components have the same name.
    """
    rewards = [(_build_one(reward, base, outside), reward.weight) for reward in spec.rewards]
    twice = [name for name, times in Counter(reward.name for reward, _ in rewards).items() if times > 1]
    if twice:
        raise InputError(f"two rewards are called {twice[0]!r}; give each its own `name`")
    return Feedback(rewards, spec.concurrency, ledger)


def _build_one(spec: NumericSpec | FormatSpec | FunctionSpec, base: Path | None, outside: Outside | None) -> Reward:
    match spec:
        case NumericSpec():
            return NumericReward(spec)
        case FormatSpec():
            return FormatReward(spec)
        case FunctionSpec():
            return FunctionReward(spec, base, outside)
