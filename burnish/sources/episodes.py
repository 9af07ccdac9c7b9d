"""Rollouts: groups of attempts of the policy, in an environment or with one answer each (the same code).

Every attempt of a step is in flight at once. What an attempt comes to is a function of the seed, the task and its
sample number, whoever shares the engine with it, so nothing has to be remembered between steps. Attempts that the
machinery spoilt stay in their group without a reward, and new ones are sampled in their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from burnish.environments.guard import EnvironmentFault, Guarded
from burnish.environments.protocol import Attempt, Environment, Family, Observation
from burnish.errors import InputError, RunError
from burnish.feedback.reward import ROWS_FAULTS
from burnish.outside import Direct, Outside
from burnish.randomness import stable_hash
from burnish.signals.rewards import BASELINE
from burnish.sources.attempt import Course, Limits, Player, Result, gathered, spoilt
from burnish.sources.calls import Calls, Syntax
from burnish.sources.order import MEASURING, build_order
from burnish.sources.spec import EpisodesSpec, RolloutsSpec
from burnish.sources.speech import RefusedError, Setting, Speech, Written
from burnish.sources.voice import Voice
from burnish.tasks import Task
from burnish.tasks.training import TrainingDataSpec
from burnish.traces import Group, Span, Status, Trace, Verdict
from burnish.traces.templates import Extension

_ROUND = 1 << 32
"""Sample numbers between those of a task and those of its refills: no later epoch of the task comes there."""
_GREEDY = 1 << 60
"""First sample number of a task's greedy answers."""


Makers = Callable[[Task, str, Sequence[int], Mapping[int, Sequence[Result]]], Sequence[Callable[[], Environment]]]
"""Of attempts at a task, given the key of their group, their places in it, and what other places have come to: what
makes the environment of each."""


@dataclass(frozen=True)
class Stage:
    """What attempts are made with, besides the sampler."""

    makers: Makers
    pure: bool
    """`Environment.pure`."""
    limits: Limits
    setting: Setting
    syntax: Syntax
    tools_shown: bool = False
    call_seconds: float | None = 60.0
    live: int = 1024
    refills: int = 2
    outside: Outside = field(default_factory=Direct)
    settle: Callable[[], None] = lambda: None
    """Called after each step: raises where judging does not work at all."""
    counts_steps: bool = True
    """Whether there is an environment to speak of, and not one answer to a task's own messages."""
    replayable: bool = True
    """`Environment.replayable`."""

    @classmethod
    def of(
        cls,
        family: Family,
        spec: EpisodesSpec,
        setting: Setting,
        syntax: tuple[Syntax, bool],
        *,
        refills: int = 2,
        outside: Outside | None = None,
    ) -> Stage:
        """Attempts in the environments of a family, as a recipe says."""
        turns = spec.turns or int(getattr(family, "turns", 16))
        return cls(
            lambda task, key, places, kept: [family.make] * len(places), family.pure,
            Limits(turns, spec.tokens, spec.seconds, spec.branch), setting, *syntax, call_seconds=spec.call_seconds,
            live=spec.live, refills=refills, outside=outside or Direct(),
            replayable=getattr(family, "replayable", True),
        )  # fmt: skip


class Episodes:
    """A source of groups of attempts."""

    def __init__(
        self, spec: RolloutsSpec, tasks: Sequence[Task], stage: Stage, data: TrainingDataSpec | None = None
    ) -> None:
        self.spec, self.stage, self.context = spec, stage, stage.setting.context
        self.order = build_order(tasks, spec.prompts_per_step, self.context.seed, data)
        branch = stage.limits.branch
        alive = spec.samples_per_prompt * (branch.ways if branch else 1)
        if alive > stage.live:
            raise InputError(
                f"episodes.live: the attempts at a prompt need {alive} environments at a time, and only {stage.live} "
                "may be there; raise it, or lower samples_per_prompt"
            )
        self._at_once = stage.live // alive

    async def groups(self, step: int) -> AsyncIterator[Group]:
        """Attempt each of the step's tasks. Raises RunError when the environment spoilt every attempt of the step."""
        async for group in self.attempted(self.order.at(step)):
            yield group

    async def attempted(self, chosen: Sequence[tuple[Task, int]]) -> AsyncIterator[Group]:
        """Attempt each of these tasks, given with how often it was taken before; in their order."""
        n, slots = self.spec.samples_per_prompt, asyncio.Semaphore(self._at_once)

        async def one(task: Task, taken: int) -> Group:
            async with slots:
                group = await attempts(self.stage, task, n, first=taken * n)
                if self.spec.greedy:
                    group.members.append(await greedy_answer(self.stage, task, taken))
                return group

        running = [asyncio.ensure_future(one(task, taken)) for task, taken in chosen]
        groups = []
        try:
            for (task, taken), attempting in zip(chosen, running, strict=True):
                groups.append(await attempting)
                if isinstance(self.order, MEASURING):
                    self.order.saw(task, taken, groups[-1])
                if len(groups) == len(running):
                    self.stage.settle()
                    _require_one(groups)
                yield groups[-1]
        finally:
            for attempting in running:
                attempting.cancel()  # when one has raised, or the taker has gone, the others have no taker

    def state(self) -> dict[str, Any]:
        """That of an order which goes by what was measured; all else is a function of the step."""
        return self.order.state() if isinstance(self.order, MEASURING) else {}

    def load(self, state: dict[str, Any]) -> None:
        """Take up the state that `state` gave."""
        if isinstance(self.order, MEASURING):
            self.order.load(state)


async def attempts(stage: Stage, task: Task, n: int, *, first: int = 0) -> Group:
    """n attempts at a task as one group, and for each that the machinery spoilt up to `refills` more.

    Attempt i draws with the random numbers of (seed, task, first + i). What was spoilt stays in the group without a
    reward; of an attempt that goes on in several ways, as many new ways are drawn as were spoilt, in one new attempt.
    Segments of an attempt that ended before its last one are members of nested groups, since each token is trained
    where it was sampled.
    """
    group = _Attempts(stage, task, f"{task.id}/{first}")
    branch = stage.limits.branch
    wanted = dict.fromkeys(range(n), branch.ways if branch else 1)
    kept: dict[int, list[Result]] = {place: [] for place in wanted}
    found: list[Result] = []
    for round_ in range(stage.refills + 1):
        played = await group.play({place: first + place + round_ * _ROUND for place in wanted}, wanted, kept)
        for place, results in played.items():
            found += results
            good = [result for result in results if not _lost(result.verdict)]
            kept[place] += good
            wanted[place] = len(results) - len(good) if good else wanted[place]
            if round_ < stage.refills:
                _note_anew(results)
        wanted = {place: ways for place, ways in wanted.items() if ways}
        if not wanted:
            break
    return group.written(found)


async def greedy_answer(stage: Stage, task: Task, taken: int) -> Span:
    """One attempt of the most probable tokens, named so and masked: it is compared with, and never trained."""
    context = stage.setting.context
    params = replace(context.params, temperature=0.0, top_k=0, top_p=1.0, min_p=0.0)
    limits = replace(stage.limits, branch=None)
    setting = replace(stage.setting, context=replace(context, params=params))
    group = await attempts(replace(stage, setting=setting, limits=limits), task, 1, first=_GREEDY + taken)
    answer = next((m for m in reversed(group.members) if not _lost(m.verdict)), group.members[-1])
    answer.name, answer.masked = BASELINE, True
    return answer


@dataclass(frozen=True)
class _Begun:
    """An attempt that has begun: its environment, its sample number, how many results it should have."""

    environment: Guarded
    number: int
    ways: int


class _Attempts:
    """The attempts at one task."""

    def __init__(self, stage: Stage, task: Task, key: str) -> None:
        self.stage, self.task, self.key = stage, task, key
        self.extensions: dict[Any, Extension] = {}
        stage.setting.context.ledger.add(stage.setting.context.role, "prompts")

    async def play(
        self, drawn: Mapping[int, int], ways: Mapping[int, int], kept: Mapping[int, Sequence[Result]]
    ) -> dict[int, list[Result]]:
        """Attempts by their places and sample numbers, each with its results. Equal beginnings are sampled together.

        `ways` is how many results each should have, `kept` what is there already of each place.
        """
        stage, places, numbers = self.stage, list(drawn), list(drawn.values())
        makers = stage.makers(self.task, self.key, places, kept)
        settings = {"outside": stage.outside, "replayable": stage.replayable}
        environments = [
            Guarded(make, stage.pure, stage.call_seconds, [self.task.id, number], **settings)
            for make, number in zip(makers, numbers, strict=True)
        ]
        resets = [self._reset(e, number) for e, number in zip(environments, numbers, strict=True)]
        openings = [await reset for reset in resets] if stage.pure else await gathered(resets)
        results = {p: [o] if isinstance(o, Result) else [] for p, o in zip(places, openings, strict=True)}
        work: list[Any] = []
        for run in _runs(numbers, openings):
            opening = openings[run[0]]
            assert isinstance(opening, Observation)
            begun = {places[i]: _Begun(environments[i], numbers[i], ways[places[i]]) for i in run}
            work.append(self._together(opening, begun))
        for found in await gathered(work):
            results |= found
        return results

    async def _reset(self, environment: Guarded, number: int) -> Observation | Result:
        seed = stable_hash(f"environment/{self.stage.setting.context.seed}/{self.task.id}/{number}")
        try:
            opening = await environment.reset(self.task, seed)
            Calls(self.stage.syntax, opening.tools, self.stage.tools_shown)  # or else they are none
            return opening
        except EnvironmentFault as fault:
            return Result(None, Attempt(self.task), await spoilt(environment, fault))

    def _course(self, begun: _Begun, player: Player) -> Course:
        limits, name = self.stage.limits.in_ways(begun.ways), [self.task.id, begun.number]
        return Course(begun.environment, player, Attempt(self.task), limits, name, self._count)

    def _count(self) -> None:
        if self.stage.counts_steps:
            context = self.stage.setting.context
            context.ledger.add(context.role, "environment_steps")

    async def _together(self, opening: Observation, chosen: Mapping[int, _Begun]) -> dict[int, list[Result]]:
        """Attempts that begin alike, with consecutive numbers: one prompt, then each on its own."""
        stage, setting = self.stage, self.stage.setting
        calls = Calls(stage.syntax, opening.tools, stage.tools_shown)
        first, *_ = (begun.number for begun in chosen.values())
        try:
            speech = Speech.opened(setting, self.task, first, calls, opening, self.extensions)
        except RefusedError as error:
            if not stage.counts_steps:  # it is the data that says so
                raise
            fault = EnvironmentFault("reset", f"gave messages that a model cannot be told: {error}")
            return {
                p: [Result(None, Attempt(self.task), await spoilt(b.environment, fault))] for p, b in chosen.items()
            }
        params = setting.context.params
        if stage.limits.tokens is not None:
            params = replace(params, max_tokens=min(params.max_tokens, stage.limits.tokens))
        completions = await speech.begin(params, len(chosen), keep=stage.limits.turns > 1)
        setting.context.ledger.add(setting.context.role, "rollouts", len(chosen))
        courses = []
        for begun, completion in zip(chosen.values(), completions, strict=True):
            voice = Voice(speech.copied(begun.number), setting.context.params)
            course = self._course(begun, voice)
            courses.append(course.run(opening, voice.take(completion, opening)))
        return dict(zip(chosen, await gathered(courses), strict=True))

    def written(self, results: Sequence[Result]) -> Group:
        """The group, its trace with every attempt in it, in the order of the attempts."""
        task, sampler = self.task, self.stage.setting.context.sampler
        trace = Trace(self.key, {"task": task.id, "domain": task.domain})
        written = Written(trace, sampler.name)
        group = Group(self.key, columns=dict(task.columns))
        for result in results:
            pieces = result.player.speech.pieces if isinstance(result.player, Voice) else []
            leaf, ended = written.add(pieces)
            if leaf < 0:  # nothing was said to it: its reset failed
                leaf = trace.add(-1, [], (), ())
            group.members.append(Span(trace, leaf, verdict=result.verdict))
            for number, earlier in enumerate(ended):
                if number == len(group.children):
                    group.children.append(Group(f"{self.key}/segment-{number}"))
                group.children[number].members.append(Span(trace, earlier, "segment", verdict=result.verdict))
        return group


def _runs(numbers: Sequence[int], openings: Sequence[Observation | Result]) -> list[list[int]]:
    """Places with consecutive numbers whose attempts begin alike; those that failed to begin are left out."""
    runs: list[list[int]] = []
    for place, opening in enumerate(openings):
        if isinstance(opening, Result):
            continue
        last = runs[-1][-1] if runs else None
        if last is not None and last == place - 1 and openings[last] == opening and numbers[place] == numbers[last] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _note_anew(results: Sequence[Result]) -> None:
    """Note on verdicts without a reward that others are sampled in their place, so that nobody misses them."""
    for result in results:
        if result.verdict is not None and _lost(result.verdict):
            result.verdict = replace(result.verdict, evidence={**result.verdict.evidence, "sampled_anew": True})


def _lost(verdict: Verdict | None) -> bool:
    """Whether another sample of the task would have its chance: the machinery failed, and not the task's own row."""
    if verdict is None or verdict.status not in (Status.INFRA_ERROR, Status.VERIFIER_ERROR):
        return False
    return not ROWS_FAULTS & set(verdict.evidence.get("kinds", {}).values())


def _require_one(groups: Sequence[Group]) -> None:
    verdicts = [member.verdict for group in groups for member in group.members if member.verdict is not None]
    if verdicts and all(verdict.status is Status.INFRA_ERROR for verdict in verdicts):
        trace = str(verdicts[-1].evidence.get("trace", ""))
        raise RunError(
            f"the environment failed in all {len(verdicts)} attempts of a step, so there is nothing to train on. "
            f"{verdicts[-1].reason}" + (f"\n{trace}" if trace else "")
        )
