"""From what a recipe says about judging to the thing that judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.environments.sandbox import run_python
from burnish.errors import InputError
from burnish.feedback.function import FunctionReward
from burnish.feedback.gates import Gate
from burnish.feedback.judge import Feedback
from burnish.feedback.numeric import FormatReward, NumericReward
from burnish.feedback.reward import Reward
from burnish.feedback.spec import FeedbackSpec, RewardSpec
from burnish.feedback.verifiers.choice import ChoiceReward
from burnish.feedback.verifiers.claims import ClaimsReward
from burnish.feedback.verifiers.code import CodeReward, CodeRunner
from burnish.feedback.verifiers.exact import ExactReward
from burnish.feedback.verifiers.expression import ExpressionReward
from burnish.feedback.verifiers.gym import ReasoningGymReward
from burnish.feedback.verifiers.instructions import InstructionsReward
from burnish.feedback.verifiers.json_schema import JsonSchemaReward
from burnish.feedback.verifiers.mathematics import MathReward
from burnish.feedback.verifiers.pooled import Pooled
from burnish.feedback.verifiers.tool_call import ToolCallReward
from burnish.feedback.workers.pool import Pool
from burnish.ledger import Ledger
from burnish.outside import Direct, Outside
from burnish.tasks.suggest import did_you_mean

POOLED: dict[str, type[Pooled]] = {
    "math": MathReward, "json_schema": JsonSchemaReward, "tool_call": ToolCallReward,
    "instructions": InstructionsReward, "choice": ChoiceReward, "reasoning_gym": ReasoningGymReward,
}  # fmt: skip
"""Kinds whose checks run in worker processes."""


@dataclass
class _Around:
    """What is at hand for whoever judges."""

    base: Path | None
    workers: int
    pool: Pool
    runner: CodeRunner | None
    outside: Outside = field(default_factory=Direct)


_ALONE: dict[str, Callable[[Any, _Around], Reward]] = {
    "numeric": lambda spec, around: NumericReward(spec),
    "format": lambda spec, around: FormatReward(spec),
    "exact": lambda spec, around: ExactReward(spec),
    "claims": lambda spec, around: ClaimsReward(spec),
    "expression": lambda spec, around: ExpressionReward(spec),
    "code": lambda spec, around: CodeReward(spec, around.runner, around.workers, around.outside),
    "function": lambda spec, around: FunctionReward(spec, around.base, around.outside),
}


def build(
    spec: FeedbackSpec,
    base: Path | None = None,
    *,
    ledger: Ledger | None = None,
    outside: Outside | None = None,
    pool: Pool | None = None,
    runner: CodeRunner | None = run_python,
) -> Feedback:
    """The feedback a spec describes; "file.py:name" is taken relative to `base` (the current folder by default).

    Foreign code and worker processes are asked through `outside`, the journal of a run. Checks run in `pool`, by
    default one of the feedback's own with as many workers as the spec says, started when it is first needed.
    Programs run by `runner`, by default in the sandbox; without one the code reward is refused. Raises InputError
    when a function cannot be loaded, when two components have the same name, or for a gate of what is not there.
    """
    preload = dict.fromkeys(
        module for reward in spec.rewards if (kind := POOLED.get(reward.kind)) is not None for module in _preload(kind)
    )
    pool = pool or Pool(spec.workers, list(preload))
    around = _Around(base, spec.workers, pool, runner, outside or Direct())
    rewards = [(_build_one(reward, around), reward.weight) for reward in spec.rewards]
    names = [reward.name for reward, _ in rewards]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InputError(f"two rewards are called {twice[0]!r}; give each its own `name`")
    return Feedback(rewards, spec.concurrency, ledger, _gates(spec, names), pool)


def _build_one(spec: RewardSpec, around: _Around) -> Reward:
    if spec.kind in POOLED:
        return POOLED[spec.kind](spec, around.pool, around.outside)  # type: ignore[arg-type]
    return _ALONE[spec.kind](spec, around)


def _preload(kind: type[Pooled]) -> list[str]:
    """What the mother of the workers imports, so that no worker has to."""
    return [module for module in (kind.check_name.partition(":")[0], kind.library) if module]


def _gates(spec: FeedbackSpec, names: list[str]) -> list[Gate]:
    for gate in spec.gates:
        for name in (gate.component, *gate.gates):
            if name not in names:
                raise InputError(f"gates: there is no component {name!r}; {did_you_mean(name, names)}")
    return [Gate(gate.component, gate.least, gate.gates) for gate in spec.gates]
