"""What a run did, counted exactly: who (role) did how much of what (quantity). No torch here.

Counting happens where the work happens: the engine, the learner, the scorer, the feedback and the evaluation each add
what they did under the role of the model that did it. docs/ledger.md says what each quantity means and how floating
point operations are counted.
"""

from __future__ import annotations

import operator
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, get_args

Quantity = Literal[
    "prompts", "rollouts", "sampled_tokens", "prefilled_tokens", "trained_tokens", "scored_tokens", "teacher_tokens",
    "reward_calls", "judge_calls", "environment_steps", "flops", "seconds",
]  # fmt: skip

QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
"""Everything that is counted. All are whole numbers but `seconds`, which is wall time."""

_SHORT = {
    "prompts": "prompts", "rollouts": "samples", "sampled_tokens": "sampled_tokens", "trained_tokens": "trained_tokens",
}  # fmt: skip
"""Names that the policy's counts have in a step's record; every other count is `ledger/ROLE/QUANTITY` there."""

_KNOWN: dict[str, Quantity] = {quantity: quantity for quantity in QUANTITIES}

Counts = dict[tuple[str, Quantity], int | float]

Totals = dict[str, dict[str, Any]]
"""Role -> quantity -> count, as in summary.json; seconds are under `timing/seconds`."""


class Ledger:
    """Counts by role and quantity: the totals of the run, and what came since the last reading.

    A role is a name: policy, reference, teacher, judge, reward, evaluation, run, or what a model of the run is called.
    Counts are integers of any size; seconds are kept apart from them wherever a ledger is written, since no two runs
    take the same time (promise E2 leaves out everything under `timing/`).

    >>> ledger = Ledger()
    >>> ledger.add("policy", "prompts", 2)
    >>> ledger.add("critic", "flops", 10**20)
    >>> ledger.read()
    {'prompts': 2, 'ledger/critic/flops': 100000000000000000000}
    >>> ledger.read(), ledger.total("policy", "prompts")
    ({}, 2)
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._totals: Counts = {}
        self._unread: Counts = {}
        self._open: Counter[str] = Counter()
        self._opened: dict[str, float] = {}

    # -- counting ------------------------------------------------------------------------------------------------

    def add(self, role: str, quantity: Quantity, amount: int | float = 1) -> None:
        """Count something. Raises ValueError for a quantity that is not known, a negative amount, or a part of one."""
        if quantity not in QUANTITIES:
            raise ValueError(f"there is no quantity {quantity!r}; a ledger counts {', '.join(QUANTITIES)}")
        if not role or "/" in role:
            raise ValueError(f"a role is a name without a slash, not {role!r}")
        exact = float(amount) if quantity == "seconds" else _whole(quantity, amount)
        if exact < 0:
            raise ValueError(f"{quantity} cannot be counted down: {amount}")
        for counts in (self._totals, self._unread):
            counts[role, quantity] = counts.get((role, quantity), 0) + exact

    @contextmanager
    def timed(self, role: str) -> Iterator[None]:
        """Count the seconds of a block under a role. Of blocks that overlap every second counts once for each role."""
        if not self._open[role]:
            self._opened[role] = self._clock()
        self._open[role] += 1
        try:
            yield
        finally:
            self._open[role] -= 1
            if not self._open[role]:
                self.add(role, "seconds", max(0.0, self._clock() - self._opened.pop(role)))

    # -- reading -------------------------------------------------------------------------------------------------

    def peek(self) -> dict[str, int | float]:
        """What was counted since the last reading, by the names it has in a step's record."""
        # in an order of its own, so that the record of a resumed run has the same bytes
        return {_key(*who): self._unread[who] for who in sorted(self._unread, key=_place)}

    def read(self) -> dict[str, int | float]:
        """As `peek`, and what comes from now on belongs to the next reading."""
        counts = self.peek()
        self._unread.clear()
        return counts

    def total(self, role: str, quantity: Quantity) -> int | float:
        """The count of the whole run; 0 for what never came."""
        return self._totals.get((role, quantity), 0)

    def to_json(self) -> Totals:
        """The totals as role -> quantity -> count, for summary.json; seconds are under `timing/seconds`."""
        roles: Totals = {}
        for role, quantity in sorted(self._totals, key=_place):
            name = "timing/seconds" if quantity == "seconds" else quantity
            roles.setdefault(role, {})[name] = self._totals[role, quantity]
        return roles

    def lines(self) -> list[str]:
        """The totals for people, in at most three lines."""
        return lines(self.to_json())

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, dict[str, int | float]]:
        """What a resumed run counts on from, as JSON values; seconds under `timing/`."""
        parts = {"totals": self._totals, "unread": self._unread}
        return {
            f"{prefix}{name}": {f"{r}/{q}": v for (r, q), v in counts.items() if (q == "seconds") is bool(prefix)}
            for name, counts in parts.items()
            for prefix in ("", "timing/")
        }

    def load(self, state: Mapping[str, Mapping[str, int | float]]) -> None:
        """Take up what `state` gave, in place of what was counted here. Raises KeyError when it is something else."""
        loaded: list[Counts] = []
        for name in ("totals", "unread"):
            counts: Counts = {}
            for key, amount in {**state[name], **state[f"timing/{name}"]}.items():
                role, _, quantity = key.rpartition("/")
                counts[role, _KNOWN[quantity]] = amount
            loaded.append(counts)
        self._totals, self._unread = loaded


def _whole(quantity: str, amount: int | float) -> int:
    try:
        return operator.index(amount)  # type: ignore[arg-type]  # an integer of numpy's is one, a float is not
    except TypeError:
        raise ValueError(f"{quantity} are counted in whole numbers, not {amount!r}") from None


def _key(role: str, quantity: Quantity) -> str:
    if quantity == "seconds":
        return f"timing/ledger/{role}/seconds"
    if role == "policy" and quantity in _SHORT:
        return _SHORT[quantity]
    return f"ledger/{role}/{quantity}"


_ROLES = ("policy", "reference", "teacher", "reward", "judge", "evaluation")
"""In this order; then any others, and last the run, which has the seconds of its steps."""


def _place(key: tuple[str, Quantity]) -> tuple[int, str, int]:
    role, quantity = key
    first = _ROLES.index(role) if role in _ROLES else len(_ROLES) + (role == "run")
    return first, role, QUANTITIES.index(quantity)


def summed(records: Iterable[Mapping[str, Any]]) -> Totals:
    """What `Ledger.to_json` would give, from the step records of a run that is not over yet.

    >>> summed([{"step": 1, "prompts": 8, "ledger/critic/flops": 5}, {"step": 2, "prompts": 8}])
    {'policy': {'prompts': 16}, 'critic': {'flops': 5}}
    """
    ledger = Ledger()
    for record in records:
        for key, amount in record.items():
            if amount is not None and (who := _parsed(key)) is not None:
                ledger.add(*who, amount if who[1] == "seconds" else int(amount))
    return ledger.to_json()


def _parsed(key: str) -> tuple[str, Quantity] | None:
    """Role and quantity of a key of a record; None for what no ledger wrote there."""
    for quantity, name in _SHORT.items():
        if key == name:
            return "policy", _KNOWN[quantity]
    parts = key.removeprefix("timing/").split("/")
    ours = len(parts) == 3 and parts[0] == "ledger" and parts[2] in _KNOWN
    return (parts[1], _KNOWN[parts[2]]) if ours else None


# ---------------------------------------------------------------- for people

SAID: dict[str, str] = {
    "prompts": "prompts", "rollouts": "rollouts", "sampled_tokens": "tokens sampled",
    "prefilled_tokens": "prompt tokens computed", "trained_tokens": "tokens trained", "scored_tokens": "tokens scored",
    "teacher_tokens": "teacher tokens", "reward_calls": "reward calls", "judge_calls": "judge calls",
    "environment_steps": "environment steps",
}  # fmt: skip
"""Counts in words."""


def lines(totals: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The totals that `Ledger.to_json` gave in at most three lines: the policy, the other roles, everything together.

    >>> policy = {"prompts": 8, "rollouts": 1024, "flops": 3 * 10**12, "timing/seconds": 75.0}
    >>> lines({"policy": policy, "reward": {"reward_calls": 8}, "run": {"timing/seconds": 95.0}})
    ['policy: 8 prompts, 1,024 rollouts, 3.00 TFLOP, 75 s', 'reward: 8 reward calls', 'in all: 3.00 TFLOP, 1.6 min']
    """
    said = {role: f"{role}: {', '.join(_said(counts))}" for role, counts in totals.items()}
    others = "; ".join(line for role, line in said.items() if role not in ("policy", "run"))
    whole = {**totals.get("run", {}), "flops": sum(counts.get("flops", 0) for counts in totals.values())}
    return [line for line in (said.get("policy"), others, f"in all: {', '.join(_said(whole))}") if line]


def _said(counts: Mapping[str, Any]) -> list[str]:
    said = [f"{counts[quantity]:,} {name}" for quantity, name in SAID.items() if quantity in counts]
    if "flops" in counts:
        said.append(flops_text(counts["flops"]))
    if "timing/seconds" in counts:
        said.append(duration_text(counts["timing/seconds"]))
    return said


def flops_text(flops: int) -> str:
    """A number of floating point operations with three digits and a unit.

    >>> flops_text(999), flops_text(1_234_567), flops_text(999_999 * 10**15)
    ('999 FLOP', '1.23 MFLOP', '1.00 ZFLOP')
    """
    units = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")
    if flops < 1000:
        return f"{flops} FLOP"
    power = min((len(str(flops)) - 1) // 3, len(units) - 1)
    value = flops / 1000**power
    if value >= 999.5 and power < len(units) - 1:
        power, value = power + 1, value / 1000
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {units[power]}FLOP"


def duration_text(seconds: float) -> str:
    """Wall time in the unit that a person would choose.

    >>> duration_text(0.25), duration_text(75), duration_text(600), duration_text(7200)
    ('250 ms', '75 s', '10.0 min', '2.0 h')
    """
    if seconds < 0.9995:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 90:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
