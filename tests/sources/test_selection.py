"""More groups are sampled than a step trains on: exact refills, over-sampling, and nothing that is not counted."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from burnish.sources.drawing import drawing
from burnish.sources.order import build_order
from burnish.sources.selection import Selected, ranked, spread
from burnish.sources.source import Source, build, numbers_of
from burnish.sources.spec import AnySelection, OversampleSpec, RefillSpec, RolloutsSpec
from burnish.tasks import Task
from burnish.traces import Group
from tests.sources.acting import FORMAT, TOKENIZER, ScriptedSampler, Words, echo, stage_for
from tests.sources.test_order import DATA, WINDOWED, group, mixed, spec, tasks

N = 4
"""Samples of a prompt."""


class Many(Words):
    """Words w0, w1, ...; right is the word backwards."""

    def tasks(self) -> list[Task]:
        words = [f"w{i}" for i in range(self.count)]
        return [Task(messages=({"role": "user", "content": w},), columns={"word": w}, answer=w[::-1]) for w in words]


def said(dull: set[str]) -> Any:
    """Samples of a word are right and wrong in turns; those of a dull one are all wrong."""

    def script(before: str, number: int, turn: int) -> str:
        word = re.findall(r"w\d+", before)[-1]
        return word[::-1] if word not in dull and number % 2 else "no"

    return script


def source(
    selection: AnySelection | None, dull: set[str], *, count: int = 12, per_step: int = 3, **keys: Any
) -> tuple[Source, ScriptedSampler]:
    family = Many(echo(True), count)
    sampler = ScriptedSampler(said(dull))
    stage = stage_for(family, sampler)
    data = spec(**keys) if keys else None
    found = build(
        RolloutsSpec(prompts_per_step=per_step, samples_per_prompt=N), family.tasks(), context=stage.setting.context,
        format=FORMAT, seed=3, data=data, stage=stage, selection=selection,
    )  # fmt: skip
    return found, sampler


def collected(found: Source, step: int) -> list[Group]:
    async def all_of_them() -> list[Group]:
        return [g async for g in found.groups(step)]

    return asyncio.run(all_of_them())


def words(groups: list[Group]) -> list[str]:
    return [g.columns["word"] for g in groups]


DULL = {f"w{i}" for i in range(0, 12, 2)}


# ---------------------------------------------------------------- refills


def test_a_batch_holds_exactly_as_many_groups_with_spread_as_it_has_prompts() -> None:
    found, sampler = source(RefillSpec(rounds=20), DULL)
    for step in range(6):
        before = len(sampler.asked)
        groups = collected(found, step)
        assert len(groups) == 3 and all(spread(g) > 0 for g in groups) and not DULL & set(words(groups))
        told = numbers_of(found)
        assert told["selection/drawn"] * N == len(sampler.asked) - before  # every sample is counted
        assert (told["selection/kept"], told["selection/missing"]) == (3, 0)
        assert told["selection/spread"] == pytest.approx(3 / told["selection/drawn"])
        assert told["selection/reward"] == pytest.approx(0.5 * 3 / told["selection/drawn"])  # of all, not of the kept
    ledger = found.inner.context.ledger  # type: ignore[attr-defined]
    assert ledger.total("policy", "rollouts") == len(sampler.asked)


def test_further_prompts_are_drawn_only_for_those_that_are_missing() -> None:
    """Nothing is sampled that would be thrown away although it teaches."""
    found, sampler = source(RefillSpec(rounds=20), DULL)
    for step in range(8):
        before = len(sampler.asked)
        kept = words(collected(found, step))
        texts = [TOKENIZER.decode(ask["before"]) for ask in sampler.asked[before:]]
        teaching = {name for text in texts for name in re.findall(r"w\d+", text) if name not in DULL}
        assert teaching == set(kept) and len(kept) == 3


def test_the_prompts_are_those_of_the_plain_order_one_after_the_other() -> None:
    plain, _ = source(None, set())
    refilled, _ = source(RefillSpec(rounds=20), DULL)
    everything = [w for step in range(12) for w in words(collected(plain, step))]
    kept = [w for step in range(4) for w in words(collected(refilled, step))]
    assert kept == [w for w in everything if w not in DULL][: len(kept)]


def test_rounds_are_bounded_and_what_is_missing_is_told() -> None:
    found, sampler = source(RefillSpec(rounds=1), {f"w{i}" for i in range(12)} - {"w5"})
    kept = [collected(found, step) for step in range(4)]
    assert len(sampler.asked) <= 4 * 2 * 3 * N
    assert ["w5"] in [words(groups) for groups in kept], "a batch that is short trains on what it has"
    assert numbers_of(found)["selection/rounds"] == 2.0


def test_where_nothing_teaches_the_groups_are_seen_all_the_same() -> None:
    """Or no guard would notice."""
    found, _ = source(RefillSpec(rounds=2), {f"w{i}" for i in range(12)})
    groups = collected(found, 0)
    assert len(groups) == 3 and not any(spread(g) for g in groups)
    assert (numbers_of(found)["selection/kept"], numbers_of(found)["selection/missing"]) == (0, 3)


def test_without_rounds_groups_that_do_not_teach_are_left_out() -> None:
    plain, _ = source(None, DULL)
    found, sampler = source(RefillSpec(rounds=0), DULL)
    for step in range(4):
        drawn = words(collected(plain, step))
        assert words(collected(found, step)) == ([w for w in drawn if w not in DULL] or drawn)
    assert len(sampler.asked) == 4 * 3 * N


def test_a_sample_of_a_prompt_that_comes_again_is_another_one() -> None:
    found, sampler = source(RefillSpec(rounds=20), DULL, count=4)
    for step in range(6):
        collected(found, step)
    asked = [(json.dumps(a["before"]), a["number"]) for a in sampler.asked]
    assert len(set(asked)) == len(asked)


# ---------------------------------------------------------------- over-sampling


def test_the_groups_that_differ_most_are_taken_in_the_order_they_were_drawn() -> None:
    drawn = [group([1.0, 1.0]), group([0.0, 1.0]), group([0.4, 0.6]), group([0.2, 0.9]), group([None, 1.0, None])]
    by = {way: ranked(drawn, OversampleSpec(by=way), 0, 0) for way in ("spread", "hard", "random")}
    assert by["spread"][:3] == [1, 3, 2] and by["hard"][:3] == [1, 2, 3]
    assert sorted(by["random"]) == list(range(5)) and by["random"] != by["spread"]
    assert ranked(drawn, OversampleSpec(by="random"), 0, 1) != by["random"]


@pytest.mark.parametrize("by", ["spread", "hard"])
def test_twice_the_prompts_are_sampled_and_those_that_teach_are_taken(by: Any) -> None:
    found, sampler = source(OversampleSpec(factor=2.0, by=by), DULL)
    plain, _ = source(None, DULL, per_step=6)
    for step in range(2):
        drawn = words(collected(plain, step))
        groups = collected(found, step)
        lively = [w for w in drawn if w not in DULL]
        assert len(groups) == 3 and set(lively[:3]) <= set(words(groups))
        assert words(groups) == [w for w in drawn if w in words(groups)]
    assert len(sampler.asked) == 2 * 6 * N


def test_a_factor_that_is_no_whole_number_is_rounded_up() -> None:
    found, sampler = source(OversampleSpec(factor=1.5), set())
    assert len(collected(found, 0)) == 3 and len(sampler.asked) == 5 * N


# ---------------------------------------------------------------- resumed


SELECTIONS: list[AnySelection] = [RefillSpec(rounds=5), OversampleSpec(factor=2.0), OversampleSpec(by="random")]


@pytest.mark.parametrize("selection", SELECTIONS, ids=lambda s: f"{s.kind}-{getattr(s, 'by', '')}")
@pytest.mark.parametrize(
    "keys", [{}, {"window": {"low": 0.1, "high": 0.9}}, {"priority": {}}], ids=["plain", "window", "priority"]
)
def test_a_resumed_source_samples_what_one_never_stopped_samples(selection: AnySelection, keys: dict[str, Any]) -> None:
    whole, sampler = source(selection, DULL, **keys)
    everything = [[g.key for g in collected(whole, step)] for step in range(5)]
    first, _ = source(selection, DULL, **keys)
    for step in range(3):
        collected(first, step)
    state = json.loads(json.dumps(first.state()))
    again, resumed = source(selection, DULL, **keys)
    again.load(state)
    assert [[g.key for g in collected(again, step)] for step in range(3, 5)] == everything[3:]
    assert resumed.asked == sampler.asked[-len(resumed.asked) :]


@pytest.mark.parametrize("name", [*DATA, *WINDOWED])
def test_drawing_takes_the_tasks_of_the_steps_in_sequence(name: str) -> None:
    counts, data = {**DATA, **WINDOWED}[name]
    order = build_order(tasks(counts), 4, 0, data)
    steps = [[(t.prompt, number) for t, number in order.at(step)] for step in range(4)]
    drawer = drawing(build_order(tasks(counts), 4, 0, data))
    assert [[(t.prompt, number) for t, number in drawer.take(step, 4)] for step in range(4)] == steps
    in_pieces = drawing(build_order(tasks(counts), 4, 0, data))
    pieces = [(t.prompt, n) for count in (1, 3, 2, 2) for t, n in in_pieces.take(0, count)]
    assert pieces == [pair for step in steps[:2] for pair in step]


def test_a_stage_begins_at_its_step_however_much_was_drawn_before() -> None:
    data = spec(curriculum={"column": "level", "stages": [{"high": 5}, {"start": 2, "low": 6}]})
    drawer = drawing(build_order(tasks([12]), 4, 0, data))
    levels = [[t.columns["level"] for t, _ in drawer.take(step, 9)] for step in range(4)]
    assert max(levels[0] + levels[1]) == 5 and min(levels[2] + levels[3]) == 6
    pairs = [pair for step in (4, 5) for pair in drawer.take(step, 9)]
    assert len({(t.id, n) for t, n in pairs}) == 18


def test_the_parts_of_a_mix_keep_their_shares_in_a_larger_draw() -> None:
    for keys in ({}, {"priority": {}}):
        drawer = drawing(build_order(tasks([20, 20]), 4, 0, mixed([3, 1], **keys)))
        drawn = [t.part for step in range(5) for count in (3, 5) for t, _ in drawer.take(step, count)]
        assert (drawn.count(0), drawn.count(1)) == (30, 10)


def test_a_selected_source_is_a_source_around_one() -> None:
    found, _ = source(RefillSpec(), DULL)
    assert isinstance(found, Selected) and numbers_of(found) == {}
