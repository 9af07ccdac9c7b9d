"""What of a step's samples trains, and what left training although it was sampled. A pure function of groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from burnish.signals.annotators import flattened, present
from burnish.traces import Group


def kept(groups: Sequence[Group]) -> dict[str, float]:
    """Numbers for a step's record, after its annotators have masked what they mask. Each member counts once.

    * `discarded`: share of the members that left training, because their reward is missing or they are masked.
    * `masked`: share of the members that are masked, with or without a reward.
    * `thin_groups`: share of the groups of which less than half has a reward, which by default do not train.
    * `rewards_kept`: how many members train with a reward; `reward_min`, `reward_max`: the range of their rewards,
      absent when there are none.

    Groups that nobody judged (demonstrations) have no such numbers: the result is empty.
    """
    members = list({id(m): m for g in flattened(groups) for m in g.members}.values())
    if not any(m.verdict is not None for m in members):
        return {}
    rewards = np.array([m.reward for m in members if m.counts], dtype=np.float64)
    rewards = rewards[~np.isnan(rewards)]
    span = {"reward_min": float(rewards.min()), "reward_max": float(rewards.max())} if len(rewards) else {}
    return {
        "discarded": float(np.mean([not m.counts for m in members])),
        "thin_groups": float(np.mean([present(g) < 0.5 for g in flattened(groups) if g.members])),
        "masked": float(np.mean([m.masked for m in members])),
        "rewards_kept": float(len(rewards)),
        **span,
    }
