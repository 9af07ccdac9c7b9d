"""Gates: components that decide whether others count at all.

With components c_k and weights w_k, and for each gate j its component g_j, the value t_j that this must reach, and the
set S_j of what it gates (all components when none are named):

    reward = sum over k of  w_k c_k  x  product over gates j with k in S_j of [g_j >= t_j]

A product with a known zero is zero, so behind a closed gate nothing else needs to be known. Where a gate's component is
missing and no other gate is closed, what it gates is missing, and so is the reward (promise E8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Gate:
    """A component that must reach `least`; `gated` names what it gates, nothing named: every component."""

    component: str
    least: float
    gated: tuple[str, ...] = ()

    def covers(self, name: str) -> bool:
        """Whether the gate decides about this component."""
        return not self.gated or name in self.gated


Standing = Literal["open", "closed", "unknown"]


def standing(name: str, gates: Sequence[Gate], values: Mapping[str, float]) -> tuple[Standing, Gate | None]:
    """Whether a component counts, and the gate that decides it; `values` lacks the components that are missing.

    >>> gates = [Gate("format", 1.0)]
    >>> [standing("numeric", gates, values)[0] for values in ({"format": 1.0}, {"format": 0.0}, {"numeric": 1.0})]
    ['open', 'closed', 'unknown']
    """
    over = [gate for gate in gates if gate.covers(name)]
    for gate in over:
        if gate.component in values and values[gate.component] < gate.least:
            return "closed", gate
    for gate in over:
        if gate.component not in values:
            return "unknown", gate
    return "open", None
