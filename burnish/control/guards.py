"""Guards: they read each step's record and end a run that cannot learn, with a sentence that says what to change.

Each guard looks for one sign, step by step, and counts the steps in a row that show it. After a few it tells a person,
once a run; after as many as the recipe allows (`guards` in the recipe) it stops the run. A step that says nothing about
a sign, because what it would be read from was not measured, neither lengthens nor ends the row; so a run without
samples and rewards is never told anything.

A run that has solved its task looks like one that cannot learn: its rewards are all equal, its samples hardly differ.
It is told apart by its past: all rewards equal the best one ever seen, and there were lower ones before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from burnish.control import sentences
from burnish.control.reading import Reading, Streak, widened
from burnish.control.spec import ZERO_VARIANCE_SAMPLES, ZERO_VARIANCE_STEPS, GuardsSpec, WatchSpec

TELL_STEPS = 5
"""Steps in a row that show a sign after which a person is told."""

SILENT_TELL_STEPS = 1
"""A step without a single reward is told of at once: nothing like it belongs to a run that works."""


@dataclass(frozen=True)
class Findings:
    """What a step's record led to: sentences for a person, and the one the run stops with."""

    tell: tuple[str, ...] = ()
    stop: str | None = None


@dataclass(frozen=True)
class Guard:
    """One sign that a run cannot learn."""

    measure: Callable[[Reading], float | None]
    """What the guard measures of a step; None when the step says nothing about the sign."""
    shows: Callable[[Reading, float, GuardsSpec], bool]
    """Whether a step with that measure shows the sign."""
    sentence: sentences.Sentence
    tell_steps: int = TELL_STEPS
    when_solved: bool = False
    """Whether a step whose rewards are all the best of the run may show it."""


def _spread(r: Reading) -> float | None:
    """Share of groups without spread. Where no reward trains, there is no spread to speak of: other guards' matter."""
    return None if r.reward is None or r.rewards_kept == 0 else r.zero_variance_groups


GUARDS: dict[str, Guard] = {
    "silent": Guard(
        lambda r: r.reward_missing,
        lambda r, missing, spec: r.reward is None,
        sentences.silent,
        tell_steps=SILENT_TELL_STEPS,
    ),
    "truncated": Guard(
        lambda r: r.truncated, lambda r, share, spec: share >= spec.truncated_share, sentences.truncated
    ),
    "discarded": Guard(
        lambda r: None if r.reward is None else r.discarded,  # a step without any reward is the silent verifier's
        lambda r, share, spec: share >= spec.discarded_share,
        sentences.discarded,
        when_solved=True,
    ),
    "entropy": Guard(lambda r: r.entropy, lambda r, nats, spec: nats < spec.entropy_floor, sentences.entropy),
    "zero_variance": Guard(_spread, lambda r, share, spec: share == 1.0, sentences.zero_variance),
}
"""Where several end a run at one step, the first one speaks: causes before effects."""


@dataclass
class Guards:
    """Watches a run's records. Its state is checkpointed: a resumed run stops where one never killed would have.

    Built from a `WatchSpec` alone, for methods that have no rewards, it finds nothing.
    """

    spec: WatchSpec
    streaks: dict[str, Streak] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    low: float | None = None
    high: float | None = None
    """Range of every reward of the run."""

    def observe(self, record: Mapping[str, Any]) -> Findings:
        """See a finished step's record, with its "step" counted from 1; say what follows from it."""
        if not isinstance(self.spec, GuardsSpec):
            return Findings()
        reading = Reading.of(record)
        self.low, self.high = widened(self.low, self.high, reading)
        solved = self._solved(reading)
        tell, stops = [], []
        for name, guard in GUARDS.items():
            measure = guard.measure(reading)
            if measure is None:
                continue
            shown = guard.shows(reading, measure, self.spec) and (guard.when_solved or not solved)
            streak = self._count(name, reading, measure if shown else None)
            if streak is None:
                continue
            if _ends(name, streak, self.spec):
                stops.append(f"{guard.sentence(streak, reading, self.spec)}. {_way_on(name)}")
            elif streak.steps >= guard.tell_steps and name not in self.told:
                self.told.add(name)
                tell.append(f"{guard.sentence(streak, reading, self.spec)}. {_end_ahead(name, self.spec)}")
        tell += self._told_solved(reading, solved)
        return Findings(tuple(tell), stops[0] if stops else None)

    def _solved(self, r: Reading) -> bool:
        """Whether every reward of the step is the best one ever seen, after lower ones."""
        if r.reward_min is None or self.low is None or self.high is None:
            return False
        return r.reward_min == self.high > self.low

    def _told_solved(self, reading: Reading, solved: bool) -> list[str]:
        """What is told, once, of a run that has solved its tasks."""
        if reading.reward_min is None:
            return []
        streak = self._count("solved", reading, reading.reward_min if solved else None)
        if streak is None or streak.steps < TELL_STEPS or "solved" in self.told:
            return []
        self.told.add("solved")
        return [sentences.solved(streak, self.low)]

    def _count(self, name: str, reading: Reading, measure: float | None) -> Streak | None:
        """The streak with this step in it; a step that does not show the sign (None) ends it."""
        if measure is None:
            self.streaks.pop(name, None)
            return None
        streak = self.streaks.setdefault(name, Streak())
        streak.add(reading, measure)
        return streak

    def state(self) -> dict[str, Any]:
        """JSON values that a resumed run needs."""
        streaks = {name: asdict(streak) for name, streak in self.streaks.items()}
        return {"streaks": streaks, "told": sorted(self.told), "low": self.low, "high": self.high}

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        self.streaks = {name: Streak(**values) for name, values in state["streaks"].items()}
        self.told = set(state["told"])
        self.low, self.high = state["low"], state["high"]


def _ends(name: str, streak: Streak, spec: GuardsSpec) -> bool:
    limit = getattr(spec, f"{name}_steps")
    if limit is None:
        return streak.steps >= ZERO_VARIANCE_STEPS and streak.samples >= ZERO_VARIANCE_SAMPLES
    return 0 < limit <= streak.steps


def _way_on(name: str) -> str:
    return f"guards.{name}_steps: 0 lets a run go on regardless"


def _end_ahead(name: str, spec: GuardsSpec) -> str:
    limit = getattr(spec, f"{name}_steps")
    if limit == 0:
        return f"The run goes on, since guards.{name}_steps is 0"
    if limit is None:
        enough = f"{ZERO_VARIANCE_STEPS} such steps in a row with {ZERO_VARIANCE_SAMPLES:,} samples"
        return f"The run stops after {enough} (guards.{name}_steps)"
    return f"The run stops after {limit} such steps in a row (guards.{name}_steps)"
