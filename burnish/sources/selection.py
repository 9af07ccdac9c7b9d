"""A source around a source: more groups are sampled than a step trains on, and those that teach are taken.

Dynamic sampling is DAPO's (Yu et al. 2025, arXiv 2503.14476, section 3.2); over-sampling and selection is what JustRL
II and others do with the same budget. All that is sampled is in the ledger, whatever becomes of it.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_generator, stable_hash
from burnish.signals.annotators import present
from burnish.signals.rewards import members_of
from burnish.sources.drawing import Drawer, drawing
from burnish.sources.episodes import Episodes
from burnish.sources.spec import AnySelection, OversampleSpec
from burnish.traces import Group

_STREAM = stable_hash("selection")


class Selected:
    """Of the groups that `inner` samples, those that the recipe's `selection` takes, as many as a step has prompts."""

    def __init__(self, inner: Episodes, spec: AnySelection) -> None:
        self.inner, self.spec = inner, spec
        self.drawer = drawing(inner.order)
        self._numbers: dict[str, float] = {}

    async def groups(self, step: int) -> AsyncIterator[Group]:
        """The groups of step `step`, in the order in which their prompts were drawn."""
        drawn: list[Group] = []
        kept = 0
        rounds = self._chosen(step, drawn) if isinstance(self.spec, OversampleSpec) else self._refilled(step, drawn)
        async for group in rounds:
            kept += 1
            yield group
        if not kept:  # nothing teaches: whoever watches the run must see it
            for group in drawn[: self.inner.spec.prompts_per_step]:
                yield group
        self._note(drawn, kept)

    async def _refilled(self, step: int, drawn: list[Group]) -> AsyncIterator[Group]:
        """Groups with spread, and for each that had none a further prompt, in as many rounds as are allowed."""
        assert not isinstance(self.spec, OversampleSpec)
        missing, rounds = self.inner.spec.prompts_per_step, 0
        while missing and rounds <= self.spec.rounds:
            rounds += 1
            async for group in self.inner.attempted(self.drawer.take(step, missing)):
                drawn.append(group)
                if spread(group) > 0:
                    missing -= 1
                    yield group
        self._numbers = {"selection/rounds": float(rounds), "selection/missing": float(missing)}

    async def _chosen(self, step: int, drawn: list[Group]) -> AsyncIterator[Group]:
        """The best groups of a larger draw."""
        assert isinstance(self.spec, OversampleSpec)
        wanted = self.inner.spec.prompts_per_step
        async for group in self.inner.attempted(self.drawer.take(step, math.ceil(self.spec.factor * wanted))):
            drawn.append(group)
        self._numbers = {}
        for place in sorted(ranked(drawn, self.spec, self.inner.context.seed, step)[:wanted]):
            yield drawn[place]

    def _note(self, drawn: Sequence[Group], kept: int) -> None:
        there = np.concatenate([worth(group) for group in drawn]) if drawn else np.zeros(0)
        self._numbers |= {
            "selection/drawn": float(len(drawn)),
            "selection/kept": float(kept),
            "selection/spread": float(np.mean([spread(group) > 0 for group in drawn])) if drawn else float("nan"),
            "selection/reward": float(there.mean()) if len(there) else float("nan"),
        }

    def numbers(self) -> dict[str, float]:
        """For the step's record: groups drawn and kept, share with spread, mean reward of everything that was drawn."""
        return dict(self._numbers)

    def state(self) -> dict[str, Any]:
        """How far it has drawn, where the order inside does not keep that itself, and the state of the inner source."""
        progress = self.drawer.progress if isinstance(self.drawer, Drawer) else None
        return {"progress": progress, "inner": self.inner.state()}

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self.inner.load(state["inner"])
        if isinstance(self.drawer, Drawer):
            self.drawer.progress = [int(number) for number in state["progress"]]


def worth(group: Group) -> npt.NDArray[np.float64]:
    """The rewards of the samples that train; one that is there to be compared with is none of them."""
    rewards = np.array([m.reward for m in members_of(group) if m.counts], dtype=np.float64)
    return rewards[np.isfinite(rewards)]


def spread(group: Group) -> float:
    """Standard deviation of a group's rewards; 0 where it teaches nothing: too few have a reward, or all the same."""
    there = worth(group)
    if len(there) < 2 or present(group) < 0.5 or np.ptp(there) == 0:
        return 0.0
    return float(there.std())


def ranked(groups: Sequence[Group], spec: OversampleSpec, seed: int, step: int) -> list[int]:
    """Places of the groups, the ones to take first; those without spread come last, but where the draw is blind."""
    if spec.by == "random":
        return counter_generator(seed, _STREAM, step).permutation(len(groups)).tolist()
    spreads = [spread(group) for group in groups]
    if spec.by == "hard":
        means = [float(worth(g).mean()) if s else math.inf for g, s in zip(groups, spreads, strict=True)]
        return sorted(range(len(groups)), key=lambda place: (means[place], place))
    return sorted(range(len(groups)), key=lambda place: (-spreads[place], place))
