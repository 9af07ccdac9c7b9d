"""What was sampled and not trained, and why: dropped groups, missing rewards, masks, cut answers, repeated steps."""

from __future__ import annotations

from collections import Counter

import numpy as np

from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.intervals import Sums, ratio
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import Member, Tally

NAME = "discarded"
RULE = (
    "fault: more than half of the sampled tokens of the stored steps were not trained; look: more than a tenth, or a "
    "twentieth of the members lost their reward to the machinery, or a tenth of all steps were taken anew "
    "(lower bounds)"
)
CANNOT = (
    "It sees what was sampled and stored: what a sampler gave up before it was handed over is in no record, and only "
    "the stored steps are counted token by token."
)


def discarded(run: RunFiles, tally: Tally) -> Finding:
    """The audit. Raises UnmeasuredError when no judged samples are stored."""
    members = [m for m in tally.members if m.length]
    if not members:
        raise UnmeasuredError("no judged samples are stored (traces_every stores them)")
    lost = np.array([float(m.length - m.weighted) for m in members])
    drawn = np.array([float(m.length) for m in members])
    groups = np.array([m.group for m in members])
    share = ratio(Sums(lost, drawn, groups), share=True)
    still = np.array([float(m.weighted - m.moved) for m in members])
    missing = ratio(
        Sums(np.array([float(bool(m.missing)) for m in members]), np.ones(len(members)), groups), share=True
    )
    reasons: Counter[str] = Counter()
    for member in members:
        if member.weighted < member.length:
            reasons[_reason(member)] += member.length - member.weighted
    repeated = len(run.redone)
    taken = len(run.metrics) + repeated
    figures = [
        Figure.of("tokens_not_trained", share, f"{int(drawn.sum())} sampled tokens of {len(tally.steps)} stored steps"),
        Figure.of("tokens_of_zero_weight", ratio(Sums(still, drawn, groups), share=True), "trained with a weight of 0"),
        Figure.of("members_without_reward", missing, f"{len(members)} stored members"),
        *(Figure(f"tokens_{name}", n / drawn.sum(), over="of sampled tokens") for name, n in sorted(reasons.items())),
        Figure("steps_taken_anew", repeated / taken if taken else 0.0, over=f"{repeated} of {taken}, in discarded/"),
    ]  # fmt: skip
    again = repeated / taken > 0.1 if taken else False
    level = graded(fault=share.low > 0.5, look=share.low > 0.1 or missing.low > 0.05 or again)
    why = "; ".join(f"{name.replace('_', ' ')} {100 * n / drawn.sum():.1f} %" for name, n in reasons.most_common())
    says = (
        f"{100 * share.estimate:.1f} % [{100 * share.low:.1f}, {100 * share.high:.1f}] of the sampled tokens were not "
        f"trained{f' ({why})' if why else ''}; {repeated} of {taken} steps were taken anew"
    )
    curve: list[tuple[float, float | None]] = [(float(s), v) for s, v in run.series("discarded")]
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures), {"members_discarded": curve})


def _reason(member: Member) -> str:
    if member.missing:
        return "without_a_reward"
    if member.masked:
        return "cut_off_and_masked" if member.truncated else "masked"
    if member.weighted == 0:
        return "in_dropped_groups"
    return "without_a_weight"
