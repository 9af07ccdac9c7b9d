"""The map of group rewards: a column a stored step, in it a block a group, in that a cell a member."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from burnish.view.stored import StoredStep

COLUMNS, GROUPS, MEMBERS = 400, 16, 32
"""Steps, groups of a step and members of a group that the map shows."""


def heat(steps: Sequence[StoredStep]) -> dict[str, Any] | None:
    """JSON values of the map, or None where nothing has a reward.

    Of more than COLUMNS steps those at even distances are taken, the first and the last among them. Rewards have five
    digits; null where there is none.
    """
    filled = [stored for stored in steps if stored.groups]
    if len(filled) > COLUMNS:
        places = {round(i * (len(filled) - 1) / (COLUMNS - 1)) for i in range(COLUMNS)}
        filled = [stored for i, stored in enumerate(filled) if i in places]
    columns = [
        {"step": stored.step, "file": stored.file.stem, "groups": [_rewards(g.rewards) for g in stored.groups[:GROUPS]]}
        for stored in filled
    ]
    rewards = [r for column in columns for group in column["groups"] for r in group if r is not None]
    if not rewards:
        return None
    return {"low": min(rewards), "high": max(rewards), "columns": columns, "note": note(steps)}


def note(steps: Sequence[StoredStep]) -> str:
    """What the map shows and what it leaves out, in a sentence."""
    filled = [stored for stored in steps if stored.groups]
    groups = max((len(stored.groups) for stored in filled), default=0)
    members = max((len(group.rewards) for stored in filled for group in stored.groups), default=0)
    cut = []
    if len(filled) > COLUMNS:
        cut.append(f"{COLUMNS} of {len(filled):,} stored steps at even distances")
    if groups > GROUPS:
        cut.append(f"the first {GROUPS} groups of a step")
    if members > MEMBERS:
        cut.append(f"the first {MEMBERS} members of a group")
    shown = f" Shown are {', '.join(cut)}." if cut else ""
    return (
        "A column is a stored step, a block in it a group, a cell a member, the best on top. A block of one colour "
        f"taught a group-relative method nothing.{shown}"
    )


def _rewards(rewards: Sequence[float | None]) -> list[float | None]:
    return [None if r is None or not math.isfinite(r) else float(f"{r:.5g}") for r in rewards[:MEMBERS]]
