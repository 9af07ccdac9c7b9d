"""Guards end a run that cannot learn, say why, let every other run go on, and decide alike after a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.control.guards import Findings, Guards
from burnish.control.kept import kept
from burnish.control.spec import GuardsSpec, WatchSpec
from burnish.traces import CONTEXT, Author, Group, Role, Span, Status, Trace, Verdict

ROOT = Path(__file__).parents[2]


def record(step: int, rewards: Sequence[float] = (0, 1), **changes: Any) -> dict[str, Any]:
    """A healthy step of 8 groups of 8: each group has `rewards` in turn, samples end by themselves and differ."""
    there = len(rewards) > 0
    found = {
        "step": step, "loss": 0.1, "trained_tokens": 640.0, "samples": 64,
        "reward": sum(rewards) / len(rewards) if there else math.nan, "reward_missing": 0.0 if there else 64.0,
        "zero_variance_groups": float(len(set(rewards)) < 2), "length": 10.0, "truncated": 0.1, "sampled_nll": 0.4,
        "discarded": 0.0 if there else 1.0, "masked": 0.0, "rewards_kept": 64.0 if there else 0.0,
    }  # fmt: skip
    span = {"reward_min": float(min(rewards)), "reward_max": float(max(rewards))} if there else {}
    return {**found, **span, **changes}


def run(guards: Guards, records: Iterable[dict[str, Any]]) -> tuple[dict[int, tuple[str, ...]], int | None, str]:
    """What is told at which step, at which step the run stops, and with which sentence."""
    told: dict[int, tuple[str, ...]] = {}
    for each in records:
        findings = guards.observe(each)
        if findings.tell:
            told[each["step"]] = findings.tell
        if findings.stop:
            return told, each["step"], findings.stop
    return told, None, ""


FLAT: dict[str, Any] = {"rewards": (0.0,)}
CUT: dict[str, Any] = {"truncated": 0.99}
SILENT: dict[str, Any] = {"rewards": ()}
LEFT: dict[str, Any] = {"discarded": 0.7, "masked": 0.1}
ALIKE: dict[str, Any] = {"sampled_nll": 0.001}


@pytest.mark.parametrize(
    ("bad", "told_at", "stops_at", "words"),
    [
        (FLAT, 8, 23, ["since step 4, in 20 steps", "all of 1,280 samples got the reward 0", "samples_per_prompt"]),
        (CUT, 8, 23, ["since step 4", "99 % of the samples were cut off at 10 tokens", "raise sampling.max_tokens"]),
        (SILENT, 4, 8, ["since step 4, in 5 steps", "none of 320 samples got a reward", "`rewards`", "burnish show"]),
        (LEFT, 8, 23, ["since step 4", "70 % of the samples left", "60 % had no reward", "10 % were masked"]),
        (ALIKE, 8, 23, ["since step 4", "0.01 nats of entropy a sample", "lower optimizer.lr", "options.entropy"]),
    ],
    ids=["zero variance", "truncated", "silent", "discarded", "entropy"],
)
def test_a_run_that_cannot_learn_is_told_of_and_then_stopped(
    bad: dict[str, Any], told_at: int, stops_at: int, words: list[str]
) -> None:
    records = [record(step) if step < 4 else record(step, **bad) for step in range(1, 100)]
    told, stopped, sentence = run(Guards(GuardsSpec()), records)
    assert list(told) == [told_at] and len(told[told_at]) == 1
    assert stopped == stops_at
    for word in words:
        assert word in sentence
    assert "guards." in sentence and "The run stops after" in told[told_at][0]


@pytest.mark.parametrize("bad", [FLAT, CUT, SILENT, LEFT, ALIKE])
def test_one_good_step_ends_the_count(bad: dict[str, Any]) -> None:
    pattern = [record(step) if step % 5 == 0 else record(step, **bad) for step in range(1, 200)]
    assert run(Guards(GuardsSpec()), pattern)[1] is None


KEYS = {"zero_variance": FLAT, "truncated": CUT, "silent": SILENT, "discarded": LEFT, "entropy": ALIKE}


@pytest.mark.parametrize("name", KEYS)
def test_each_limit_is_that_of_the_recipe_and_0_only_tells(name: str) -> None:
    def bad(spec: GuardsSpec) -> tuple[dict[int, tuple[str, ...]], int | None, str]:
        return run(Guards(spec), (record(step, **KEYS[name]) for step in range(1, 40)))

    assert bad(GuardsSpec.model_validate({f"{name}_steps": 2}))[1] == 2
    told, stopped, _ = bad(GuardsSpec.model_validate({f"{name}_steps": 0}))
    assert stopped is None
    [[about]] = told.values()
    assert f"The run goes on, since guards.{name}_steps is 0" in about


@pytest.mark.parametrize(
    ("key", "lenient", "strict", "value"),
    [
        ("truncated_share", 0.8, 0.7, {"truncated": 0.75}),
        ("discarded_share", 0.4, 0.3, {"discarded": 0.35, "masked": 0.35}),
        ("entropy_floor", 0.09, 0.11, {"sampled_nll": 0.01}),
    ],
)
def test_each_threshold_is_that_of_the_recipe(key: str, lenient: float, strict: float, value: dict[str, Any]) -> None:
    for limit, stops in ((lenient, None), (strict, 20)):
        records = [record(step, **value) for step in range(1, 40)]
        assert run(Guards(GuardsSpec.model_validate({key: limit})), records)[1] == stops


def test_few_samples_a_step_need_more_steps_without_spread() -> None:
    """In 20 steps of 8 samples a model that succeeds once in 50 times is often unlucky throughout."""
    records = [record(step, (0.0,), rewards_kept=8.0) for step in range(1, 400)]
    assert run(Guards(GuardsSpec()), records)[1] == 160
    assert run(Guards(GuardsSpec(zero_variance_steps=20)), records)[1] == 20


def test_the_cause_speaks_before_the_effect() -> None:
    records = [record(step, **FLAT, **CUT, **LEFT) for step in range(1, 40)]
    _, stopped, sentence = run(Guards(GuardsSpec()), records)
    assert stopped == 20 and "raise sampling.max_tokens" in sentence
    masked = [record(step, discarded=0.9, masked=0.8) for step in range(1, 40)]
    assert "turn off options.mask_truncated" in run(Guards(GuardsSpec()), masked)[2]


def test_prompts_that_always_or_never_succeed_get_their_own_advice() -> None:
    records = [record(step, zero_variance_groups=1.0) for step in range(1, 40)]
    _, stopped, sentence = run(Guards(GuardsSpec()), records)
    assert stopped == 20
    assert "rewards from 0 to 1, 0.5 on average" in sentence
    assert "each prompt always succeeds or always fails" in sentence


def test_steps_without_any_reward_say_nothing_about_spread() -> None:
    """A dead verifier is reported as that, also when the run may go on without it."""
    spec = GuardsSpec(silent_steps=0, zero_variance_steps=3)
    assert run(Guards(spec), (record(step, ()) for step in range(1, 50)))[1] is None
    between = [record(1, (0.0,)), record(2, (0.0,)), record(3, ()), record(4, (0.0,))]
    assert run(Guards(spec), between)[1] == 4
    masked = [record(step, (0.0,), masked=1.0, rewards_kept=0.0) for step in range(1, 50)]
    assert run(Guards(spec), masked)[1] is None


def test_a_solved_task_is_told_of_once_and_not_stopped() -> None:
    """All rewards equal, samples alike and cut off: but it was worse before, so it did learn."""
    learning = [record(step, (0.0, 0.5, 1.0)) for step in range(1, 11)]
    done = [record(step, (1.0,), sampled_nll=0.0001, truncated=1.0) for step in range(11, 200)]
    told, stopped, _ = run(Guards(GuardsSpec()), [*learning, *done])
    assert stopped is None
    assert list(told) == [15]
    assert "since step 11 every sample has the reward 1" in told[15][0] and "the lowest: 0" in told[15][0]


def test_a_solved_task_does_not_excuse_samples_that_are_thrown_away() -> None:
    """That most rewards are missing is no success of the few that are there."""
    records = [record(1, (0.0, 1.0)), *(record(step, (1.0,), discarded=0.9) for step in range(2, 60))]
    assert run(Guards(GuardsSpec()), records)[1] == 21


def test_a_run_that_only_ever_saw_the_best_reward_or_fell_back_from_it_is_stopped() -> None:
    """Right from the start there is nothing to learn; and equal rewards below the best seen are no success."""
    assert run(Guards(GuardsSpec()), (record(step, (1.0,)) for step in range(1, 40)))[1] == 20
    fell = [record(1, (0.0, 1.0)), *(record(step, (0.0,)) for step in range(2, 40))]
    assert run(Guards(GuardsSpec()), fell)[1] == 21
    worse = [record(1, (0.2, 0.4)), *(record(step, (0.3,)) for step in range(2, 40))]
    assert run(Guards(GuardsSpec()), worse)[1] == 21


def test_demonstrations_never_trip_a_guard() -> None:
    """Supervised steps have no rewards, samples or entropy; the strictest limits find nothing."""
    strict = GuardsSpec(
        silent_steps=1, truncated_steps=1, discarded_steps=1, entropy_steps=1, zero_variance_steps=1, entropy_floor=9
    )
    steps = [{"step": s, "loss": 0.0, "trained_tokens": 0.0, "optimizer_steps": 1.0} for s in range(1, 300)]
    assert run(Guards(strict), steps) == ({}, None, "")
    assert run(Guards(WatchSpec()), (record(step, ()) for step in range(1, 300))) == ({}, None, "")


def test_what_was_not_measured_is_null_or_nan_and_no_measure() -> None:
    for absent in (None, math.nan):
        gone = dict.fromkeys(("truncated", "discarded", "sampled_nll", "zero_variance_groups"), absent)
        assert run(Guards(GuardsSpec()), (record(step, **gone) for step in range(1, 60))) == ({}, None, "")
    silent = [record(step, (), reward=None) for step in range(1, 60)]  # as metrics.jsonl has it
    assert run(Guards(GuardsSpec()), silent)[1] == 5


@pytest.mark.parametrize("seed", range(5))
def test_the_demo_is_never_stopped(seed: int) -> None:
    """What its five measured runs recorded: the model starts at 0 to 3 % and learns."""
    found = json.loads((ROOT / "benchmarks" / "results" / "demo" / f"seed-{seed}.json").read_text(encoding="utf-8"))
    records = []
    for step in found["steps_recorded"]:
        rewards = (0.0, 1.0) if step["reward"] else (0.0,)
        values = {k: v for k, v in step.items() if k in ("reward", "length", "truncated")}
        records.append(record(step["step"], rewards, **{**values, "sampled_nll": 0.065}))  # the least that was seen
    assert len(records) == 32
    assert run(Guards(GuardsSpec()), records) == ({}, None, "")


STEPS = st.lists(
    st.builds(
        dict,
        rewards=st.sampled_from([(), (0.0,), (1.0,), (0.0, 1.0), (-1.0, 0.1)]),
        truncated=st.sampled_from([0.0, 1.0]),
        sampled_nll=st.sampled_from([0.4, 0.0001, None]),
        discarded=st.sampled_from([0.0, 0.61]),
    ),
    max_size=40,
)


@given(
    steps=STEPS,
    cuts=st.sets(st.integers(0, 40)),
    limits=st.fixed_dictionaries({f"{name}_steps": st.integers(0, 8) for name in KEYS}),
)
def test_a_resumed_run_decides_as_one_never_killed(
    steps: list[dict[str, Any]], cuts: set[int], limits: dict[str, int]
) -> None:
    spec = GuardsSpec.model_validate(limits)
    whole, killed = Guards(spec), Guards(spec)
    for place, values in enumerate(steps):
        if place in cuts:
            state = json.loads(json.dumps(killed.state(), allow_nan=False))
            killed = Guards(spec)
            killed.load(state)
        one, other = (guards.observe(record(place + 1, **values)) for guards in (whole, killed))
        assert isinstance(one, Findings) and one == other
    assert whole.state() == killed.state()


def test_a_stopped_run_that_is_resumed_unchanged_stops_again_and_with_a_higher_limit_goes_on() -> None:
    guards = Guards(GuardsSpec(zero_variance_steps=5))
    assert run(guards, (record(step, (0.0,)) for step in range(1, 40)))[1] == 5
    for limit, stops in ((5, 6), (9, 9), (0, None)):
        again = Guards(GuardsSpec(zero_variance_steps=limit))
        again.load(json.loads(json.dumps(guards.state())))
        assert run(again, (record(step, (0.0,)) for step in range(6, 40)))[1] == stops


def _groups(*members: tuple[float | None, bool]) -> list[Group]:
    trace = Trace("t")
    root = trace.add(-1, [1, 2], CONTEXT, Role.PROMPT)
    spans = []
    for reward, masked in members:
        leaf = trace.add(root, [3], Author.model("policy", 0), Role.ANSWER, np.array([-0.5]))
        verdict = Verdict(reward) if reward is not None else Verdict.missing(Status.VERIFIER_ERROR, "no answer")
        spans.append(Span(trace, leaf, verdict=verdict, masked=masked))
    return [Group("g", spans)]


def test_discarded_is_the_share_of_members_that_were_sampled_and_do_not_train() -> None:
    found = kept(_groups((1.0, False), (None, False), (None, True), (9.0, True), (0.25, False)))
    assert found == {
        "discarded": 0.6, "masked": 0.4, "thin_groups": 0.0, "rewards_kept": 2.0, "reward_min": 0.25, "reward_max": 1.0
    }  # fmt: skip
    found = kept(_groups((None, False), (2.0, True)))
    assert found == {"discarded": 1.0, "masked": 0.5, "thin_groups": 0.0, "rewards_kept": 0.0}


def test_a_member_of_several_groups_is_counted_once() -> None:
    [group] = _groups((1.0, False), (None, False))
    parent = Group("p", [group.members[0]], children=[group])
    assert kept([parent, group])["discarded"] == 0.5


def test_demonstrations_have_no_discarded_share() -> None:
    [group] = _groups((1.0, False))
    group.members[0].verdict = None
    assert kept([group]) == {}
