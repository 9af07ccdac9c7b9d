"""Which rollouts a run has stored, and which of them a page shows: a rule that is stated and bounded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from burnish.randomness import stable_hash
from burnish.traces.outline import Outline, read_outline

SAMPLE = 24
"""Rollouts a page draws by seed, besides the first, the last, the best and the worst."""

EXTREMES, SIBLINGS = 4, 8
"""Best and worst rollouts a page shows, of each; members of the first and of the last group."""


@dataclass(frozen=True, order=True)
class Stored:
    """One stored rollout: the step and the file it was stored with, and its place there."""

    step: int
    file: Path
    group: int
    member: int
    reward: float | None
    siblings: int

    @property
    def id(self) -> str:
        """A name of its own within the run."""
        return f"{self.file.stem}/{self.group}/{self.member}"


@dataclass(frozen=True)
class StoredStep:
    """A trace file: the step it belongs to, and what its groups were rewarded."""

    file: Path
    step: int
    groups: tuple[Outline, ...]

    def rollouts(self) -> list[Stored]:
        """Every member of every group."""
        return [
            Stored(self.step, self.file, g, m, reward, len(group.rewards))
            for g, group in enumerate(self.groups)
            for m, reward in enumerate(group.rewards)
        ]


def trace_files(run: Path) -> list[Path]:
    """A run's trace files in the order of their names."""
    return sorted(run.glob("traces/[!.]*.parquet"))


def stored_step(file: Path, place: int = 0) -> StoredStep:
    """Read a trace file's outline. The step is the number in its name, or else its place among the files.

    Raises InputError when the file is broken.
    """
    found = re.search(r"(\d+)$", file.stem)
    return StoredStep(file, int(found[1]) if found else place, tuple(read_outline(file)))


def stored_steps(run: Path) -> list[StoredStep]:
    """Everything that a run has stored, by step, without a token. Raises InputError when a file is broken."""
    steps = [stored_step(file, place) for place, file in enumerate(trace_files(run), 1)]
    return sorted(steps, key=lambda stored: stored.step)


def chosen(steps: Sequence[StoredStep], *, sample: int = SAMPLE, seed: int = 0) -> list[tuple[Stored, str]]:
    """The rollouts a page shows, by step, each with why: first, last, best, worst or drawn.

    These are the first members of the first group and of the last one, those with the highest and the lowest rewards
    (the earlier where they are equal), and `sample` others: those whose hash of seed and place is smallest, a uniform
    draw without replacement in which a rollout stays while no smaller one arrives.
    """
    filled = [stored for stored in steps if stored.groups]
    if not filled:
        return []
    everything = [rollout for stored in filled for rollout in stored.rollouts()]
    reasons: dict[Stored, str] = {}
    _take(reasons, (r for r in filled[0].rollouts() if r.group == 0 and r.member < SIBLINGS), "first")
    last = len(filled[-1].groups) - 1
    _take(reasons, (r for r in filled[-1].rollouts() if r.group == last and r.member < SIBLINGS), "last")
    rewarded = [(rollout.reward, rollout) for rollout in everything if rollout.reward is not None]
    best = sorted(rewarded, key=lambda pair: (-pair[0], pair[1].step))
    worst = sorted(rewarded, key=lambda pair: (pair[0], pair[1].step))
    _take(reasons, (rollout for _, rollout in best[:EXTREMES]), "best")
    _take(reasons, (rollout for _, rollout in worst[:EXTREMES]), "worst")
    rest = [rollout for rollout in everything if rollout not in reasons]
    drawn = sorted(rest, key=lambda rollout: stable_hash(f"{seed}/{rollout.id}"))[:sample]
    _take(reasons, drawn, "drawn")
    return sorted(reasons.items(), key=lambda pair: (pair[0].step, pair[0].group, pair[0].member))


def _take(reasons: dict[Stored, str], rollouts: Iterable[Stored], why: str) -> None:
    for rollout in rollouts:
        reasons.setdefault(rollout, why)


def rule(steps: Sequence[StoredStep], shown: int, *, sample: int = SAMPLE, seed: int = 0) -> str:
    """The rule of `chosen` in a sentence for the reader."""
    total = sum(len(group.rewards) for stored in steps for group in stored.groups)
    counted = _counted(total, "rollout"), _counted(len(steps), "step")
    of = f"{counted[0].replace(' ', ' stored ')}, of {counted[1]},"
    if shown == total:
        return f"All {of} are in this page."
    return (
        f"{shown:,} of {of} are in this page: up to {SIBLINGS} members of the first and of the last stored group, the "
        f"{EXTREMES} with the highest and the {EXTREMES} with the lowest reward, and {sample} drawn at random from the "
        f"others (seed {seed})."
    )


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
