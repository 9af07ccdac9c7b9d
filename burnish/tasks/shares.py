"""Dividing places among parts by weight, as evenly as whole numbers allow, place by place.

The quota method (Balinski and Young 1975, "The quota method of apportionment"): of the parts that stay below their
share rounded up, the place goes to the one whose next place is due first. After any number n of places, a part of share
w has n w of them, rounded up or down; after one period it has exactly its share.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

LONGEST = 100_000
"""The longest period: weights without a common measure have no exact shares."""
_FINEST = 10_000


def whole_shares(weights: Sequence[float]) -> list[int]:
    """The smallest whole numbers that stand to each other as the weights do.

    Weights are compared with the largest as fractions of denominators up to 10,000, so that 0.333333 is a third. Raises
    ValueError for weights below 0 or all 0, and for those that have no such numbers with a sum up to `LONGEST`.
    """
    if not weights or any(not w >= 0 or math.isinf(w) for w in weights) or not any(weights):
        raise ValueError(f"weights must be numbers of at least 0, one of them above, not {list(weights)}")
    largest = max(weights)
    ratios = [Fraction(w / largest).limit_denominator(_FINEST) for w in weights]
    if any(w and not ratio for w, ratio in zip(weights, ratios, strict=True)):
        raise ValueError(f"a weight is less than 1/{_FINEST} of the largest: {list(weights)}")
    measure = math.lcm(*(ratio.denominator for ratio in ratios))
    shares = [int(ratio * measure) for ratio in ratios]
    common = math.gcd(*shares)
    shares = [share // common for share in shares]
    if sum(shares) > LONGEST:
        raise ValueError(f"weights {list(weights)} have no common measure: give small whole numbers")
    return shares


class Shares:
    """Which part each place belongs to: a pure function of the place, repeated with a period.

    Raises ValueError as `whole_shares` does.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.shares = whole_shares(weights)
        """Places of each part in one period."""
        self.period = sum(self.shares)
        self._part = self._order()
        self._places = [[i for i, owner in enumerate(self._part) if owner == part] for part in range(len(weights))]

    def _order(self) -> list[int]:
        """The part of each place of one period."""
        taken = [0] * len(self.shares)
        order = []
        for place in range(1, self.period + 1):
            below = [i for i, share in enumerate(self.shares) if self.period * taken[i] < place * share]
            chosen = min(below, key=lambda i: Fraction(taken[i] + 1, self.shares[i]))
            order.append(chosen)
            taken[chosen] += 1
        return order

    def at(self, place: int) -> tuple[int, int]:
        """The part of a place, and how many of the places before are that part's."""
        part = self._part[place % self.period]
        return part, self.before(place, part)

    def before(self, place: int, part: int) -> int:
        """How many of the places before `place` are a part's."""
        periods, within = divmod(place, self.period)
        return periods * self.shares[part] + bisect_left(self._places[part], within)
