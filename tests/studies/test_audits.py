"""Each audit of a run's records tells a planted fault from a clean run, and says what it was measured over."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import burnish
from burnish.studies.audits import Finding
from burnish.studies.audits.intervals import Sums, growth, ratio, within
from burnish.traces import CONTEXT, Author, Role, Signal, SignalKind, Trace
from burnish.traces.store import read_groups, write_groups
from tests.studies.audited import GROUPS, MEMBERS, STEPS, Drawn, Shape, observed, plain, write_run

RECORDS = ("hacking", "diversity", "length", "groups", "gap", "discarded", "authors")


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("audits") / "clean")


def of(path: Path, shape: Shape, audit: str, **metrics: float) -> Finding:
    return burnish.audit(write_run(path / "run", shape, metrics=metrics), audit)[audit]


def test_a_clean_run_is_ok_in_every_audit_of_its_records(clean: Path) -> None:
    report = burnish.audit(clean, RECORDS)
    assert [f.audit for f in report.findings] == list(RECORDS)
    assert [f.level for f in report.findings] == ["ok"] * len(RECORDS), str(report)
    assert report.level == "ok"
    assert report.read == {
        "steps": STEPS, "stored_steps": STEPS, "stored_steps_read": STEPS, "groups": STEPS * GROUPS,
        "members": STEPS * GROUPS * MEMBERS,
    }  # fmt: skip
    for finding in report.findings:
        assert finding.rule and finding.cannot_tell.endswith(".") and "fault" in finding.rule
        assert any(figure.low is not None for figure in finding.figures) or finding.audit == "authors"
    text = json.dumps(report.to_json(), allow_nan=False)  # a page takes it as it is
    assert json.loads(text)["findings"][0]["audit"] == "hacking" and "cannot tell" in str(report)


# ---------------------------------------------------------------- hacking


def hacking_from(first: int, *, flagged: bool = True) -> Shape:
    def shape(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        if step < first and random.random() > 0.02:
            return Drawn(drawn.tokens, drawn.reward, {"true": drawn.reward or 0.0, "hack": 0.0} if flagged else {})
        if not flagged:
            return Drawn([99, 98], 1.0)
        return Drawn([99, 98], 1.0, {"true": 0.25, "hack": 1.0}, {"hack": "cheap_text"})

    return shape


def test_a_shortcut_that_takes_over_is_a_fault_with_its_share_and_its_onset(tmp_path: Path) -> None:
    found = of(tmp_path, hacking_from(3), "hacking")
    assert found.level == "fault" and found["share_of_reward"].value == 0.75 and "cheap_text" in found.says
    assert found["onset_step"].value == 3 and "since step 3" in found.says
    assert found["true_reward_change"].high is not None and found["true_reward_change"].high < -0.05
    assert found["proxy_reward_change"].low is not None and found["proxy_reward_change"].low > 0.3
    rates = dict(found.curves["hack_rate"])
    assert rates[4.0] == 1.0 and found["area"].value == pytest.approx(np.mean([rate or 0.0 for rate in rates.values()]))


def test_a_shortcut_that_hardly_ever_pays_is_ok_and_has_no_onset(tmp_path: Path) -> None:
    def never(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        return Drawn(drawn.tokens, drawn.reward, {"true": drawn.reward or 0.0, "hack": 0.0})

    found = of(tmp_path, never, "hacking")
    assert found.level == "ok" and found["share_of_reward"].value == 0 and math.isnan(found["onset_step"].value)
    # 40 samples of 8 groups without a hack do not show that there is none
    assert found["share_of_reward"].high is not None and 0.2 < found["share_of_reward"].high < 0.5


def test_one_text_that_pays_in_every_task_is_seen_although_nothing_flags_it(tmp_path: Path) -> None:
    found = of(tmp_path, hacking_from(3, flagged=False), "hacking")
    assert found.level == "look" and found["commonest_rewarded_answer"].value == 1.0
    assert "no verdict has a component" in found.says


# ---------------------------------------------------------------- diversity, length, groups


def test_one_answer_to_every_task_is_a_fault_of_diversity(tmp_path: Path) -> None:
    found = of(tmp_path, hacking_from(3), "diversity")
    assert found.level == "fault" and found["commonest_answer"].value == 1.0
    assert found["differ_all"].value == 0 and found["distinct_answers"].value == 1


def test_wrong_answers_that_become_alike_are_looked_at_and_right_ones_that_are_alike_are_not(tmp_path: Path) -> None:
    def stuck(random: np.random.Generator, step: int, task: int) -> Drawn:
        right = bool(random.integers(2))
        wrong = 9 if step > 2 else int(random.integers(10, 90))
        return Drawn([100 + task, 7 if right else wrong], float(right))

    found = of(tmp_path, stuck, "diversity")
    assert found.level == "look" and found["differ_wrong"].value == 0
    growth_high = found["differ_wrong_growth"].high
    assert growth_high is not None and growth_high < 0.5
    assert math.isnan(found["differ_right_growth"].value)  # they never differed


def longer(paid: float, growing: float) -> Shape:
    """Reward is length with this weight and else chance; answers grow by so many tokens a step."""

    def shape(random: np.random.Generator, step: int, task: int) -> Drawn:
        size = int(random.integers(4, 20) + growing * step)
        reward = paid * (size - growing * step) / 20 + (1 - paid) * float(random.random())
        return Drawn(list(random.integers(5, 400, size)), reward)

    return shape


@pytest.mark.parametrize(("paid", "growing", "level"), [(1, 8, "fault"), (1, 0, "look"), (0, 8, "look"), (0, 0, "ok")])
def test_pay_for_length_and_growth_together_are_a_fault(tmp_path: Path, paid: int, growing: int, level: str) -> None:
    found = of(tmp_path, longer(paid, growing), "length")
    assert found.level == level, str(found)
    assert found["correlation"].value == pytest.approx(1.0, abs=1e-9) if paid else abs(found["correlation"].value) < 0.2


def test_answers_that_are_cut_off_are_looked_at(tmp_path: Path) -> None:
    def cut(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        drawn.finish = "length" if random.random() < 0.5 else "stop"
        return drawn

    found = of(tmp_path, cut, "length")
    assert found.level == "look" and 0.3 < found["cut_off"].value < 0.7


def flat_at(reward: float) -> Shape:
    def shape(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        if step > 2:
            drawn.reward = reward
        return drawn

    return shape


def test_groups_that_teach_nothing_any_more_are_told_all_wrong_from_all_right(tmp_path: Path) -> None:
    wrong, right = (of(tmp_path / str(r), flat_at(r), "groups") for r in (0.0, 1.0))
    assert (wrong.level, right.level) == ("fault", "look")
    assert wrong["all_wrong"].value == 1.0 and wrong["all_right"].value == 0.0
    assert right["all_wrong"].value == 0.0 and right["all_right"].value == 1.0
    assert right["spread"].value == 0


def test_groups_that_lost_their_members_are_a_fault(tmp_path: Path) -> None:
    def thinned(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        drawn.masked = step > 2 and random.random() < 0.9
        return drawn

    found = of(tmp_path, thinned, "groups")
    assert found.level == "fault" and found["size"].value < 2 and found["size_drawn"].value == MEMBERS
    assert found["members_left_out"].low is not None and found["members_left_out"].low > 0.7


# ---------------------------------------------------------------- gap


def gapped(size: float, growing: bool) -> Shape:
    def shape(random: np.random.Generator, step: int, task: int) -> Drawn:
        place = np.arange(64)
        scale = size * (place / 64) ** 2 if growing else np.full(64, size)
        return Drawn(list(random.integers(5, 400, 64)), float(random.integers(2)), gap=random.normal(0, scale))

    return shape


@pytest.mark.parametrize(
    ("size", "growing", "level"),
    [(0.5, False, "fault"), (0.05, False, "look"), (0.15, True, "look"), (1e-3, False, "ok")],
)
def test_a_gap_is_told_by_its_size_and_by_where_it_lies(tmp_path: Path, size: float, growing: bool, level: str) -> None:
    found = of(tmp_path, gapped(size, growing), "gap")
    assert found.level == level, str(found)
    expected = size * math.sqrt(2 / math.pi)  # of a normal variable
    by_position = dict(found.curves["by_position"])
    assert list(by_position) == [0.0, 1.0, 4.0, 16.0]
    if growing:
        assert found["late_over_early"].low is not None and found["late_over_early"].low > 2
        assert (by_position[16.0] or 0) > 20 * (by_position[1.0] or 0)
    else:
        assert found["mean_gap"].value == pytest.approx(expected, rel=0.05)
        assert found["mean_ratio"].value == pytest.approx(math.exp(size**2 / 2), rel=0.05)


def test_positions_are_counted_over_all_turns_of_an_attempt(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "traces" / "step-000001.parquet"
    groups = read_groups(file)
    trace = groups[0].traces[0]
    first = groups[0].members[0].leaf
    said = trace.add(first, [1, 2, 3], CONTEXT, Role.SCAFFOLD)
    turn = trace.add(said, [4, 5], Author.model("policy", 0), Role.ANSWER, [-0.5, -0.5])
    trace.write(turn, "old_logprob", np.full(2, -2.5))  # a gap of 2 on both
    groups[0].members[0].leaf, groups[0].members[0].stop = turn, None
    write_groups(file, groups)
    at = len(trace.nodes[first])
    curve = dict(burnish.audit(run, "gap")["gap"].curves["by_position"])
    assert 4 <= at < 16 and (curve[4.0] or 0) > 10 * (curve[0.0] or 0) > 0


def test_without_stored_log_probabilities_the_metric_serves(tmp_path: Path) -> None:
    def bare(random: np.random.Generator, step: int, task: int) -> Drawn:
        return Drawn([1, 2], float(random.integers(2)))

    for size, level in ((1e-6, "ok"), (0.05, "look"), (0.3, "fault")):
        found = of(tmp_path / str(size), bare, "gap", sampler_gap=size)
        assert found.level == level and found["mean_gap"].value == pytest.approx(size)
        assert "by position it is not stored" in found.says


# ---------------------------------------------------------------- discarded, authors


def lost(share: float, how: str) -> Shape:
    def shape(random: np.random.Generator, step: int, task: int) -> Drawn:
        drawn = plain(random, step, task)
        if random.random() < share:
            drawn.advantage = None
            drawn.masked = how == "cut_off_and_masked"
            drawn.finish = "length" if drawn.masked else "stop"
            drawn.reward = None if how == "without_a_reward" else drawn.reward
        return drawn

    return shape


@pytest.mark.parametrize("how", ["cut_off_and_masked", "without_a_reward", "in_dropped_groups"])
@pytest.mark.parametrize(("share", "level"), [(0.8, "fault"), (0.3, "look"), (0.0, "ok")])
def test_what_was_sampled_and_not_trained_is_told_with_its_reason(
    tmp_path: Path, how: str, share: float, level: str
) -> None:
    found = of(tmp_path, lost(share, how), "discarded")
    assert found.level == level and found["tokens_not_trained"].value == pytest.approx(share, abs=0.08)
    names = {figure.name for figure in found.figures}
    reasons = {"tokens_cut_off_and_masked", "tokens_without_a_reward", "tokens_in_dropped_groups"}
    assert names & reasons == ({f"tokens_{how}"} if share else set())


def test_steps_that_a_resume_took_anew_are_counted(clean: Path, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    for life in (1, 2):
        folder = run / "discarded" / str(life)
        folder.mkdir(parents=True)
        (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": s}) + "\n" for s in (3, 4)))
    found = burnish.audit(run, "discarded")["discarded"]
    assert found["steps_taken_anew"].value == pytest.approx(4 / 8) and found.level == "look"
    assert burnish.audit(clean, "discarded")["discarded"]["steps_taken_anew"].value == 0


def planted(path: Path, plant: str) -> Finding:
    """A run of which one step's traces carry a weight where none belongs, as another program might write it."""
    run = write_run(path / "run")
    file = run / "traces" / "step-000002.parquet"
    groups = read_groups(file)
    trace: Trace = groups[0].traces[0]
    kind = SignalKind.WEIGHT if plant == "prompt" else SignalKind.POLICY
    if plant == "environment":
        node = observed(groups[0])
        trace.nodes[node].signals["observed"] = Signal(SignalKind.WEIGHT, np.ones(2))
    elif plant != "none":
        trace.nodes[0].signals["stray"] = Signal(kind, np.array([np.nan, 1.0]))
    write_groups(file, groups)
    return burnish.audit(run, "authors")["authors"]


@pytest.mark.parametrize(
    ("plant", "level"), [("none", "ok"), ("prompt", "fault"), ("policy", "fault"), ("environment", "look")]
)
def test_weights_on_tokens_of_others_are_told(tmp_path: Path, plant: str, level: str) -> None:
    found = planted(tmp_path, plant)
    assert found.level == level, str(found)
    assert found["foreign_policy_weights"].value == (plant == "policy")
    assert found["prompt_weights"].value == (plant in ("prompt", "policy"))
    assert found["environment_weighted"].value == (2 if plant == "environment" else 0)
    assert found["model_tokens_weighted"].value == 1.0


def test_few_trained_tokens_and_old_ones_are_looked_at(tmp_path: Path) -> None:
    found = of(tmp_path, lost(0.8, "masked"), "authors")
    assert found.level == "look" and found["model_tokens_weighted"].value < 0.4
    run = write_run(tmp_path / "stale")
    for file in sorted(run.glob("traces/*.parquet")):
        groups = read_groups(file)
        extra = groups[0].traces[0]
        extra.add(0, [3] * 2000, Author.model("policy", 9), Role.ANSWER, [-0.1] * 2000)
        write_groups(file, groups)
    assert burnish.audit(run, "authors")["authors"]["weight_versions_old"].value > 0.5


# ---------------------------------------------------------------- intervals


def test_intervals_over_groups_cover_what_they_should() -> None:
    random = np.random.default_rng(0)
    hits = 0
    for trial in range(300):
        means = random.beta(2, 3, 60)
        values = (random.random((60, 8)) < means[:, None]).astype(float)
        clusters = np.repeat(np.arange(60), 8)
        found = ratio(Sums(values.ravel(), np.ones(480), clusters), seed=trial)
        hits += found.low <= 0.4 <= found.high
    assert 0.92 <= hits / 300 <= 0.98
    few = ratio(Sums(np.ones(3), np.ones(3), np.arange(3)))
    assert few.estimate == 1.0 and math.isnan(few.low)  # three groups give no interval
    assert growth(Sums(np.zeros(9), np.ones(9), np.arange(9)), Sums(np.ones(9), np.ones(9), np.arange(9))).estimate != 1


def test_a_correlation_within_groups_leaves_out_what_groups_differ_in() -> None:
    random = np.random.default_rng(1)
    groups = np.repeat(np.arange(40), 6)
    x = np.repeat(random.normal(0, 10, 40), 6) + random.normal(size=240)
    y = np.repeat(x.reshape(40, 6).mean(1), 6) + random.normal(size=240)  # goes by the group alone
    assert np.corrcoef(x, y)[0, 1] > 0.9
    found = within(x, y, groups)
    assert found.low < 0 < found.high
