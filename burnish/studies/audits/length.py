"""Length against reward: whether longer answers of a prompt are paid more, and whether answers grow.

Length is what was sampled on a member's path, over all turns. The correlation is taken within groups, so that hard
prompts, which are answered at length and often wrongly, do not pass for it.
"""

from __future__ import annotations

import math

import numpy as np

from burnish.studies.audits.diversity import threshold
from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, growth, ratio, windows, within
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import Member, Tally

NAME = "length"
RULE = (
    "fault: answers grew by more than a quarter from the first to the last quarter of the stored steps, while within a "
    "group reward and length correlate above 0.5; look: growth by more than a half, or a correlation above 0.3 or "
    "below -0.3, or more than a tenth cut off in the last quarter (bounds of the intervals)"
)
CANNOT = (
    "A correlation does not say what causes what: where a task takes long answers, right ones are longer, and nothing "
    "is wrong with that."
)


def length(run: RunFiles, tally: Tally) -> Finding:
    """The audit. Raises UnmeasuredError when no stored sample has a reward."""
    members = [m for m in tally.members if m.counts and not math.isnan(m.reward)]
    if not members:
        raise UnmeasuredError("no stored sample has a reward (traces_every stores them)")
    groups = np.array([m.group for m in members])
    lengths, rewards = np.array([float(m.length) for m in members]), np.array([m.reward for m in members])
    paid = within(lengths, rewards, groups)
    first, last = windows(tally.steps)
    end = [m for m in members if m.step in set(last or tally.steps)]
    middle = threshold(members)
    figures = [
        Figure.of("correlation", paid, "of length and reward within groups, all stored steps"),
        Figure.of("length", ratio(_lengths(end)), "tokens, last quarter"),
        Figure.of("cut_off", ratio(_cut(end), share=True), "samples that did not end by themselves, last quarter"),
    ]
    grown = math.nan, math.nan
    if last:
        drift = growth(_lengths([m for m in members if m.step in set(first)]), _lengths(end))
        figures.append(Figure.of("growth", drift, "mean length of the last quarter over that of the first"))
        grown = drift.estimate, drift.low
    for name, right in (("right", True), ("wrong", False)):
        chosen = [m for m in end if (m.reward >= middle) is right]
        if chosen:
            figures.append(Figure.of(f"length_{name}", ratio(_lengths(chosen)), "tokens, last quarter"))
    level = graded(
        fault=grown[1] > 1.25 and paid.low > 0.5,
        look=grown[1] > 1.5 or paid.low > 0.3 or paid.high < -0.3 or (figures[2].low or 0) > 0.1,
    )
    says = (
        f"reward and length correlate at {paid.estimate:.2f} [{paid.low:.2f}, {paid.high:.2f}] within groups; mean "
        f"length {figures[1].value:.1f} tokens in the last quarter, {grown[0]:.2f} times that of the first"
    )
    steps = sorted({m.step for m in members})
    curves = {
        f"length_{name}": [
            (float(s), _lengths([m for m in members if m.step == s and (m.reward >= middle) is right]).ratio)
            for s in steps
        ]
        for name, right in (("right", True), ("wrong", False))
    }
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures), curves)


def _lengths(members: list[Member]) -> Sums:
    return _per_member(members, [float(m.length) for m in members])


def _cut(members: list[Member]) -> Sums:
    return _per_member(members, [float(m.truncated) for m in members])


def _per_member(members: list[Member], values: list[float]) -> Sums:
    return Sums(np.array(values), np.ones(len(members)), np.array([m.group for m in members], dtype=np.int64))
