"""A budget in words: "2 PFLOP", "30 min", "1e6 sampled tokens". No torch here."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from burnish.errors import InputError
from burnish.ledger import QUANTITIES, SAID, Quantity, duration_text, flops_text
from burnish.tasks.suggest import did_you_mean

_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}
_UNITS: dict[str, tuple[Quantity, float]] = {
    "s": ("seconds", 1.0), "sec": ("seconds", 1.0), "second": ("seconds", 1.0), "seconds": ("seconds", 1.0),
    "min": ("seconds", 60.0), "minute": ("seconds", 60.0), "minutes": ("seconds", 60.0),
    "h": ("seconds", 3600.0), "hour": ("seconds", 3600.0), "hours": ("seconds", 3600.0), "d": ("seconds", 86400.0),
    "day": ("seconds", 86400.0), "days": ("seconds", 86400.0),
    "tokens": ("sampled_tokens", 1.0), "samples": ("rollouts", 1.0),
    **{quantity: (quantity, 1.0) for quantity in QUANTITIES},
    **{quantity.replace("_", " "): (quantity, 1.0) for quantity in QUANTITIES},
    **{f"{scale}{word}": ("flops", size) for scale, size in _SCALES.items() for word in ("FLOP", "FLOPs", "flop")},
}  # fmt: skip
"""Word -> what it counts, and how many one of it is."""

_FORM = re.compile(
    r"\s*([0-9][0-9_,]*(?:\.[0-9]+)?|\.[0-9]+)(e[+-]?[0-9]+)?\s*([kMGTPEZ]?)\s*([A-Za-z][A-Za-z_ ]*?)?\s*"
)


@dataclass(frozen=True)
class Budget:
    """An amount of one of the ledger's quantities."""

    amount: float
    quantity: Quantity

    def __str__(self) -> str:
        return said(self.quantity, self.amount)


def said(quantity: Quantity, amount: float) -> str:
    """An amount of a quantity in words.

    >>> said("flops", 2e15), said("seconds", 1800), said("rollouts", 5000)
    ('2.00 PFLOP', '30.0 min', '5,000 rollouts')
    """
    if quantity == "flops":
        return flops_text(round(amount))
    if quantity == "seconds":
        return duration_text(amount)
    return f"{round(amount):,} {SAID[quantity]}"


def parse_budget(text: str) -> Budget:
    """Read a budget: a number and a unit, such as "2PFLOP", "30 min", "100k sampled_tokens", "5000 rollouts".

    Raises InputError for anything else, with the unit that was meant.
    """
    found = _FORM.fullmatch(text)
    if found is None:
        raise InputError(f"budget: {text!r} is no number with a unit; {_EXAMPLES}")
    number, power, scale, unit = found.groups(default="")
    if not unit:
        raise InputError(f"budget: {text!r} has no unit; {_EXAMPLES}")
    amount = float(number.replace("_", "").replace(",", "") + power)
    meant = _UNITS.get(scale + unit) or _UNITS.get((scale + unit).lower())
    if meant is None and scale:
        meant = _UNITS.get(unit) or _UNITS.get(unit.lower())
        amount *= _SCALES[scale]
    if meant is None:
        raise InputError(f"budget: there is no unit {scale + unit!r}; {did_you_mean(scale + unit, _OFFERED)}")
    quantity, size = meant
    if not 0 < amount * size < math.inf:
        raise InputError(f"budget: {text!r} must be a positive, finite amount")
    return Budget(amount * size, quantity)


_OFFERED = ("FLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "seconds", "min", "h", "days", *QUANTITIES[:-2])
_EXAMPLES = 'write for instance "2PFLOP", "30min", "100k sampled_tokens" or "5000 rollouts"'
