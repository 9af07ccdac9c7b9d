"""Diversity of the answers in a group, and over tasks. pass@k against the base model needs sampling: crossover.py.

The chance that two answers of a group differ is 1 - sum c (c - 1) / (n (n - 1)) over how often each answer came
(Simpson's index, unbiased); unlike a count of distinct answers it does not grow with the group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, change, growth, ratio, windows
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import Member, Tally
from burnish.studies.statistics import Interval

NAME = "diversity"
RULE = (
    "fault: one text is more than half of all answers of the last quarter, over different tasks, and its share has "
    "risen; look: the chance that two wrong answers, or two right ones, of a group differ fell below half of what it "
    "was (bounds of the intervals)"
)
CANNOT = (
    "Answers are compared token by token: two that differ in a space count as different, and two right ones that say "
    "the same in other words do too; whether the base model would find more with many tries takes pass@k (--models)."
)


def diversity(run: RunFiles, tally: Tally) -> Finding:
    """The audit. Raises UnmeasuredError when there are no groups."""
    members = [m for m in tally.members if m.counts and m.length]
    first, last = windows(tally.steps)
    if not members:
        raise UnmeasuredError("no groups of samples are stored")
    if not last:
        raise UnmeasuredError("one step is stored, and a change takes two (traces_every)")
    middle = threshold(members)
    begin, end = ([m for m in members if m.step in set(steps)] for steps in (first, last))
    figures = [Figure.of("distinct_answers", ratio(_distinct(end)), "distinct answers a group, last quarter")]
    figures.append(Figure.of("distinct_answers_change", change(_distinct(begin), _distinct(end))))
    falls = []
    for name, keep in (("all", None), ("right", True), ("wrong", False)):
        before, after = _pairs(begin, keep, middle), _pairs(end, keep, middle)
        figures.append(Figure.of(f"differ_{name}", ratio(after), "chance that two answers of a group differ"))
        fall = growth(before, after)
        figures.append(Figure.of(f"differ_{name}_growth", fall, "last quarter over first"))
        falls.append(name != "all" and before.ratio >= 0.1 and fall.high < 0.5)
    common, more = _common(begin, end)
    figures.append(Figure.of("commonest_answer", ratio(common[1], share=True), "share of one text, over all tasks"))
    figures.append(Figure.of("commonest_answer_change", more))
    share = ratio(common[1], share=True)
    level = graded(fault=share.low > 0.5 and more.low > 0 and len({m.task for m in end}) > 1, look=any(falls))
    says = (
        f"{figures[0].value:.1f} distinct answers a group of {len(end) / max(1, len({m.group for m in end})):.1f} "
        f"({figures[1].value:+.1f} since the first quarter); the commonest text is {100 * share.estimate:.0f} % of all "
        "answers"
    )
    curve = [(float(step), _distinct([m for m in members if m.step == step]).ratio) for step in tally.steps]
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures), {"distinct_answers": curve})


def threshold(members: Sequence[Member]) -> float:
    """Half-way between the smallest and the largest reward: from there on an answer is called right."""
    rewards = [m.reward for m in members if not math.isnan(m.reward)]
    return (min(rewards) + max(rewards)) / 2 if rewards and max(rewards) > min(rewards) else 0.5


def _by_group(members: Iterable[Member]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for member in members:
        found.setdefault(member.group, []).append(member.answer)
    return found


def _distinct(members: Sequence[Member]) -> Sums:
    groups = _by_group(members)
    return Sums(
        np.array([len(set(a)) for a in groups.values()], dtype=float), np.ones(len(groups)), np.array(list(groups))
    )


def _pairs(members: Sequence[Member], right: bool | None, middle: float) -> Sums:
    """Per group: pairs that differ, and all pairs; each group counts as one, so both are divided by all pairs."""
    chosen = [m for m in members if right is None or (m.reward >= middle) is right]
    groups = {g: a for g, a in _by_group(chosen).items() if len(a) > 1}
    different = []
    for answers in groups.values():
        n = len(answers)
        different.append(1 - sum(c * (c - 1) for c in Counter(answers).values()) / (n * (n - 1)))
    return Sums(np.array(different), np.ones(len(different)), np.array(list(groups), dtype=np.int64))


def _common(begin: Sequence[Member], end: Sequence[Member]) -> tuple[tuple[Sums, Sums], Interval]:
    """The share of the text that is commonest at the end, at the beginning and at the end, and its change."""
    text = Counter(m.answer for m in end).most_common(1)[0][0]
    sums = tuple(
        Sums(
            np.array([float(m.answer == text) for m in part]), np.ones(len(part)), np.array([m.group for m in part])
        )
        for part in (begin, end)
    )  # fmt: skip
    return (sums[0], sums[1]), change(sums[0], sums[1])
