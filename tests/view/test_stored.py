"""Which rollouts a page shows, and the map of rewards: bounded, by a rule that is stated and kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from burnish.errors import InputError
from burnish.traces import CONTEXT, Author, Group, Role, Span, Status, Trace, Verdict
from burnish.traces.outline import flat, read_outline
from burnish.traces.store import read_groups, write_groups
from burnish.view.heat import COLUMNS, GROUPS, MEMBERS, heat
from burnish.view.packed import BEFORE, SHOWN, packed_rollouts
from burnish.view.stored import Outline, StoredStep, chosen, rule, stored_steps


def member(reward: float | None, prompt: int = 3, own: int = 2) -> Span:
    trace = Trace("t")
    root = trace.add(-1, np.arange(prompt), CONTEXT, Role.PROMPT)
    leaf = trace.add(root, np.arange(own), Author.model("policy", 1), Role.ANSWER, np.zeros(own, np.float32))
    verdict = Verdict(reward) if reward is not None else Verdict.missing(Status.VERIFIER_ERROR, "lost")
    return Span(trace, leaf, verdict=verdict)


def step(number: int, *rewards: tuple[float | None, ...]) -> StoredStep:
    file = Path(f"step-{number:06d}.parquet")
    return StoredStep(file, number, tuple(Outline(f"g{i}", group) for i, group in enumerate(rewards)))


def test_an_outline_is_what_the_whole_file_says(tmp_path: Path) -> None:
    nested = Group("outer", [member(1.0), member(None)], children=[Group("inner", [member(0.5)]), Group("empty")])
    nested.members[0].masked = True
    holder = Group("holder", children=[Group("deep", [member(-2.0)])])
    file = tmp_path / "step-000007.parquet"
    write_groups(file, [nested, holder])
    outline, whole = read_outline(file), flat(read_groups(file))
    assert [(o.key, o.rewards) for o in outline] == [("outer", (None, None)), ("inner", (0.5,)), ("deep", (-2.0,))]
    assert [g.key for g in whole] == [o.key for o in outline]
    for group, told in zip(whole, outline, strict=True):
        assert [None if np.isnan(r) else r for r in group.rewards] == list(told.rewards)
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_outline(file)


def test_the_first_the_last_the_best_the_worst_and_a_seeded_draw_are_shown() -> None:
    random = np.random.default_rng(3)
    steps = [step(n, *(tuple(random.normal(size=10)) for _ in range(4))) for n in range(1, 101)]
    found = chosen(steps, sample=20, seed=1)
    by_reason: dict[str, list] = {}
    for stored, why in found:
        by_reason.setdefault(why, []).append(stored)
    assert {why: len(stored) for why, stored in by_reason.items()} == {
        "first": 8, "last": 8, "best": 4, "worst": 4, "drawn": 20,
    }  # fmt: skip
    assert {(s.step, s.group) for s in by_reason["first"]} == {(1, 0)}
    assert {(s.step, s.group) for s in by_reason["last"]} == {(100, 3)}
    others = sorted(r for s in steps for g in s.groups for r in g.rewards)
    assert {s.reward for s in by_reason["best"]} == set(others[-4:])
    assert {s.reward for s in by_reason["worst"]} == set(others[:4])
    assert found == chosen(steps, sample=20, seed=1)
    drawn = {s.id for s in by_reason["drawn"]}
    other = {s.id for s, why in chosen(steps, sample=20, seed=2) if why == "drawn"}
    assert len(drawn & other) < 5
    assert rule(steps, len(found), sample=20, seed=1).startswith("44 of 4,000 stored rollouts, of 100 steps, are in")


def test_the_draw_is_uniform_and_stays_when_more_arrives() -> None:
    steps = [step(n, tuple([0.5] * 10)) for n in range(1, 41)]
    counts = np.zeros(42)
    for seed in range(60):
        for stored, why in chosen(steps, sample=12, seed=seed):
            counts[stored.step] += why == "drawn"
    middle = counts[3:39]  # the first group and the last have reasons of their own, and so have the best of equals
    assert abs(middle[:18].sum() - middle[18:].sum()) < 5 * np.sqrt(middle.sum())
    assert counts.sum() == 60 * 12 and middle.min() > 0
    before = {s.id for s, why in chosen(steps, sample=12) if why == "drawn"}
    after = {s.id for s, why in chosen([*steps, step(41, (0.5, 0.5))], sample=12) if why == "drawn"}
    assert len(before - after) <= 2


def test_the_map_is_bounded_and_says_what_it_leaves_out() -> None:
    many = [step(n, *([tuple([0.25] * (MEMBERS + 3))] * (GROUPS + 2))) for n in range(1, COLUMNS + 101)]
    drawn = heat(many)
    assert drawn is not None and len(drawn["columns"]) == COLUMNS
    assert (drawn["columns"][0]["step"], drawn["columns"][-1]["step"]) == (1, COLUMNS + 100)
    assert {len(c["groups"]) for c in drawn["columns"]} == {GROUPS} and len(drawn["columns"][0]["groups"][0]) == MEMBERS
    for said in ("400 of 500 stored steps", f"the first {GROUPS} groups", f"the first {MEMBERS} members"):
        assert said in drawn["note"]
    small = heat([step(1, (0.0, None, 1.5))])
    assert small is not None and (small["low"], small["high"]) == (0.0, 1.5) and "Shown" not in small["note"]
    assert heat([step(1, (None, None))]) is None and heat([]) is None and chosen([]) == []


def test_long_rollouts_are_cut_and_say_so(tmp_path: Path) -> None:
    file = tmp_path / "traces" / "step-000001.parquet"
    write_groups(file, [Group("g", [member(1.0, prompt=BEFORE + 50, own=SHOWN + 70), member(0.0)])])
    long, short = packed_rollouts(chosen(stored_steps(tmp_path)), None)
    assert (long["before"], long["after"], long["start"], len(long["ids"])) == (50, 70, BEFORE, BEFORE + SHOWN)
    assert long["ids"][:2] == [50, 51] and long["texts"][0] == "[50]" and long["tokens"] == SHOWN + 70
    assert (short["before"], short["after"], short["start"]) == (0, 0, 3)


def test_a_log_ratio_comes_from_the_learners_log_probability_where_that_is_stored(tmp_path: Path) -> None:
    span = member(1.0)
    span.trace.write(span.leaf, "old_logprob", [-0.5, 0.25])
    span.trace.write(span.leaf, "wide", np.ones((2, 3)), axes=("k",))
    write_groups(tmp_path / "traces" / "step-000001.parquet", [Group("g", [span])])
    (packed,) = packed_rollouts(chosen(stored_steps(tmp_path)), None)
    assert packed["columns"]["log_ratio"] == [None, None, None, -0.5, 0.25]  # the sampler's are 0
    assert set(packed["columns"]) == {"logprob", "old_logprob", "log_ratio"}
