"""Which samples of a dataset a filter keeps. No torch here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from burnish.running.pipelines.datasets import text_of, truncated
from burnish.running.pipelines.spec import FilterSpec
from burnish.traces import Group, Span


class Filter:
    """Applies the conditions of a spec to groups as they come, and counts what was dropped and why."""

    def __init__(self, spec: FilterSpec) -> None:
        self.spec = spec
        self.seen = 0
        self.kept = 0
        self.dropped: Counter[str] = Counter()

    def apply(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with the members that are kept; a group of which nothing is kept is left out.

        The traces stay whole. Members are kept in their order.
        """
        chosen = []
        for group in groups:
            self.seen += len(group.members)
            members = self._of_group(group.members)
            if members:
                chosen.append(Group(group.key, members, columns=group.columns))
                self.kept += len(members)
        return chosen

    def _of_group(self, members: list[Span]) -> list[Span]:
        spec = self.spec
        left = self._drop("reward missing", members, lambda m: m.verdict is not None and m.verdict.reward is None)
        if spec.reads_rewards:
            left = self._drop("not judged", left, lambda m: m.verdict is None)
        left = self._drop("without text", left, lambda m: not text_of(m))
        if spec.drop_truncated:
            left = self._drop("truncated", left, truncated)
        if spec.drop_equal_rewards and len({m.reward for m in left}) < 2:
            left = self._drop("equal rewards", left, lambda m: True)
        low, high = spec.min_reward, spec.max_reward
        if low is not None:
            left = self._drop("below min_reward", left, lambda m: m.reward < low)
        if high is not None:
            left = self._drop("above max_reward", left, lambda m: m.reward > high)
        if spec.distinct:
            texts = [text_of(m) for m in left]
            first = {id(m) for place, m in enumerate(left) if texts.index(texts[place]) == place}
            left = self._drop("same text", left, lambda m: id(m) not in first)
        if spec.best is not None:
            best = {id(m) for m in sorted(left, key=lambda m: -m.reward)[: spec.best]}  # of equals the first
            left = self._drop("not among the best", left, lambda m: id(m) not in best)
        if spec.at_most is not None:
            within = {id(m) for m in left[: spec.at_most - self.kept]}
            left = self._drop("beyond at_most", left, lambda m: id(m) not in within)
        return left

    def _drop(self, why: str, members: list[Span], is_out: Callable[[Span], bool]) -> list[Span]:
        left = [member for member in members if not is_out(member)]
        if len(left) < len(members):
            self.dropped[why] += len(members) - len(left)
        return left
