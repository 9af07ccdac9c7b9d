"""Health of the groups: how many have rewards that differ, and how many members they have left.

A group-relative advantage is zero where all rewards of a group are equal (DAPO, Yu et al. 2025, arXiv 2503.14476): such
a group was sampled and judged, and teaches nothing.
"""

from __future__ import annotations

import numpy as np

from burnish.studies.audits.diversity import threshold
from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, ratio, windows
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import Tally, Unit
from burnish.studies.statistics import wilson_interval

NAME = "groups"
RULE = (
    "fault: more than half of the groups of the last quarter are all wrong, or more than four fifths of all stored "
    "groups have equal rewards, or more than a tenth of the last have fewer than two rewards left; look: more than "
    "half of the last have equal rewards, or a tenth of their members are left out (lower bounds)"
)
CANNOT = (
    "Equal rewards may mean that a prompt is too hard, too easy, or that the reward cannot tell answers apart: the "
    "shares of all wrong and all right narrow it down and do not decide it."
)


def groups(run: RunFiles, tally: Tally) -> Finding:
    """The audit. Raises UnmeasuredError when nothing was judged in groups."""
    judged = {m.group for m in tally.members}
    units = [u for u in tally.units if u.group in judged and u.members > 1]
    if not units:
        raise UnmeasuredError("no judged groups of two or more samples are stored (traces_every stores them)")
    last = set(windows(tally.steps)[1] or tally.steps)
    middle = threshold(tally.members)
    end = [u for u in units if u.step in last]
    flat = [u for u in end if _flat(u)]
    zero = wilson_interval(len(flat), len(end))
    right = sum(bool(u.rewards) and u.rewards[0] >= middle for u in flat)
    wrong = sum(bool(u.rewards) and u.rewards[0] < middle for u in flat)
    thin = wilson_interval(sum(u.counted < 2 for u in end), len(end))
    left = ratio(_left(end), share=True)
    spread = [float(np.std(u.rewards)) for u in end if u.counted > 1]
    figures = (
        Figure.of("zero_variance", zero, f"{len(end)} groups of the last quarter"),
        Figure.of("all_right", wilson_interval(right, len(end)), "the same"),
        Figure.of("all_wrong", wilson_interval(wrong, len(end)), "the same"),
        Figure.of("under_two", thin, "groups with fewer than two rewards left"),
        Figure.of("members_left_out", left, "missing or masked, last quarter"),
        Figure("size", float(np.mean([u.counted for u in end])), over="rewards a group, last quarter"),
        Figure("size_drawn", float(np.mean([u.members for u in end])), over="members a group, last quarter"),
        Figure("spread", float(np.mean(spread)) if spread else float("nan"), over="standard deviation in a group"),
    )
    ever = wilson_interval(sum(map(_flat, units)), len(units))
    level = graded(
        fault=(figures[2].low or 0) > 0.5 or ever.low > 0.8 or thin.low > 0.1,
        look=zero.low > 0.5 or left.low > 0.1,
    )
    says = (
        f"{100 * zero.estimate:.0f} % [{100 * zero.low:.0f}, {100 * zero.high:.0f}] of the last groups have equal "
        f"rewards ({right} all right, {wrong} all wrong of {len(end)}); {figures[5].value:.1f} of "
        f"{figures[6].value:.1f} members have a reward"
    )
    curve: list[tuple[float, float | None]] = [(float(s), v) for s, v in run.series("zero_variance_groups")]
    if not curve:
        curve = [
            (float(s), float(np.mean([_flat(u) for u in units if u.step == s])))
            for s in sorted({u.step for u in units})
        ]
    return Finding(NAME, level, says, RULE, CANNOT, figures, {"zero_variance": curve})


def _flat(unit: Unit) -> bool:
    return not unit.rewards or max(unit.rewards) == min(unit.rewards)


def _left(units: list[Unit]) -> Sums:
    dropped = np.array([float(u.members - u.counted) for u in units])
    drawn = np.array([float(u.members) for u in units])
    return Sums(dropped, drawn, np.array([u.group for u in units], dtype=np.int64))
