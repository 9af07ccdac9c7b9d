"""The sides at work: real processes, tiny work. Nothing here looks at times."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.cli import main
from burnish.models.loading import load_tokenizer
from burnish.studies.bench import jobs, material, measure
from burnish.studies.bench.children import TooSlowError, run_once, started
from burnish.studies.bench.jobs import Job
from burnish.studies.bench.measure import check_work
from burnish.studies.bench.results import BenchResult
from burnish.studies.bench.spec import DEFAULTS, Benchmark, Work
from tests.studies.made_up import made_up

TINY = Work("grpo", "nursery:S", prompts=2, samples=2, prompt_tokens=9, new_tokens=5)
SFT = Work("sft", "nursery:S", lengths=(20, 33))


@pytest.fixture(scope="module")
def grpo_rounds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Two steps of both sides of a tiny GRPO, the floor's counts, and the run that ours left."""
    folder = tmp_path_factory.mktemp("grpo")
    facts = jobs.prepare(folder, TINY)
    settings = {**DEFAULTS["trl"], "threads": 1}
    sides = [
        jobs.products(folder, TINY, facts, 1),
        jobs.ours(folder, TINY, facts, 1),
        jobs.peer("trl", folder, TINY, facts, settings, None),
    ]
    with started(sides, folder) as children:
        about, rates = children["floor"].about, children["floor"].go()["rates"]
        rounds = [{name: children[name].go() for name in ("ours", "trl")} for _ in range(2)]
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return {"folder": folder, "facts": facts, "rounds": rounds, "about": about, "rates": rates, "records": records}


def test_both_sides_sample_answers_of_exactly_the_length_that_was_asked_for(grpo_rounds: dict[str, Any]) -> None:
    for of_round in grpo_rounds["rounds"]:
        for name in ("ours", "trl"):
            check_work(name, TINY, grpo_rounds["facts"], of_round[name])
            assert of_round[name]["seconds"] > 0 and of_round[name]["peak_memory"] > 1e7
            assert 0 < of_round[name]["reward"] < 1


def test_the_floor_counts_the_operations_that_the_run_counted(grpo_rounds: dict[str, Any]) -> None:
    """The ledger of a real step has the same operations as the floor's phases, to the last one."""
    counted = {phase["name"]: phase["flops"] for phase in grpo_rounds["about"]["phases"]}
    assert [r["ledger/policy/flops"] for r in grpo_rounds["records"][:2]] == [sum(counted.values())] * 2
    assert len(grpo_rounds["rates"]) == len(counted) == 3 and all(rate > 1e6 for rate in grpo_rounds["rates"])


def test_the_material_has_exactly_the_tokens_that_the_work_says(grpo_rounds: dict[str, Any], tmp_path: Path) -> None:
    tokenizer = load_tokenizer(grpo_rounds["facts"]["model"])
    rows = [json.loads(line) for line in (grpo_rounds["folder"] / material.PROMPTS).read_text().splitlines()]
    ids = [list(tokenizer(row["prompt"])["input_ids"]) for row in rows]
    assert ids == grpo_rounds["facts"]["prompts"] and {len(prompt) for prompt in ids} == {9} and len(ids) == 2
    config = json.loads((Path(grpo_rounds["facts"]["model"]) / "config.json").read_text())
    assert tokenizer.eos_token_id == config["vocab_size"]  # which no model can sample
    facts = jobs.prepare(tmp_path, SFT)
    assert facts["trained_tokens"] == 20 - 10 + 33 - 12 and facts["tokens"] == 53


def test_supervised_sides_train_the_same_tokens_whatever_the_packing(tmp_path: Path) -> None:
    facts = jobs.prepare(tmp_path, SFT)
    sides = [jobs.ours(tmp_path, SFT, facts, 1)]
    settings = {**DEFAULTS["trl"], "threads": 1, "packing": "packing"}
    sides.append(jobs.peer("trl", tmp_path, SFT, facts, settings, None))
    with started(sides, tmp_path) as children:
        for _ in range(2):
            for name, child in children.items():
                check_work(name, SFT, facts, child.go())


def status(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, output and errors of a command in this process; what it starts are processes of their own."""
    with pytest.raises(SystemExit) as end:
        main(words)
    shown = capsys.readouterr()
    return int(end.value.code or 0), shown.out, shown.err


def test_the_command_measures_the_engine_and_says_which_peer_is_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(jobs.VLLM_PYTHON, "")
    code, out, errors = status(
        capsys, "bench", "engine-group", "--small", "--prompts", "1", "--runs", "1", "--threads", "1", "--json",
        "--warm-up", "0", "--out", "found.json",
    )  # fmt: skip
    assert code == 0, errors
    found = json.loads(out)
    assert json.loads((tmp_path / "found.json").read_text()) == found
    assert found["work"].startswith("1 prompts x 8 samples") and found["peer_name"] == "generate"
    assert found["ours"] > 0 and found["ratio"] > 0 and found["floor_ratio"] > 0 and len(found["runs"]) == 1
    assert set(found["floor"]["phases"]) == {"prefill", "decode"} and "--vllm-python" in found["absent"]["vllm"]
    figures = found["figures"][0]
    assert figures["ours"]["tokens"] == figures["generate"]["tokens"] == 8 * 32
    assert all(figures[side]["mean_logprob"] < 0 for side in ("ours", "generate"))  # log-probabilities are on
    assert "round 1 of 1: ours" in errors


# ---------------------------------------------------------------- sides that misbehave


STUCK = "import sys, time; c.ready(); print('hanging', file=sys.stderr, flush=True); time.sleep(60)"


def job(code: str) -> Job:
    start = f"import sys; sys.path.insert(0, {str(jobs.SIDES)!r}); from channel import Channel; c = Channel(); "
    return Job("peer", (sys.executable, "-c", start + code), jobs.environment(None))


def test_a_side_that_fails_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    for code, why in (("1 / 0", "ZeroDivisionError"), ("c.ready(); sys.exit('no more')", "no more")):
        failure = pytest.raises(burnish.RunError, match=f"(?s)peer ended with status 1:.*{why}")
        with failure, started([job(code)], tmp_path) as children:
            children["peer"].go()
    with pytest.raises(burnish.RunError, match="peer ended with status 3"):
        run_once(job("sys.exit(3)"), tmp_path)


def test_a_side_that_takes_too_long_is_broken_off_and_ended(tmp_path: Path) -> None:
    with started([job(STUCK)], tmp_path) as children:
        with pytest.raises(
            TooSlowError, match=r"(?s)not done within 0.2 s, and was ended; its log ends with:\nhanging"
        ):
            children["peer"].go(0.2)
        assert children["peer"].process.wait(5) == -signal.SIGKILL
    with pytest.raises(TooSlowError, match=r"peer was not done within 0.5 s, and was ended"):
        run_once(job("import time; time.sleep(60)"), tmp_path, 0.5)


def test_a_benchmark_with_a_stuck_side_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jobs, "prepare", lambda folder, work: {})
    for side in ("ours", "products"):
        monkeypatch.setattr(jobs, side, lambda *arguments, **options: job(STUCK))
    with pytest.raises(TooSlowError, match=r"was not done within 0.3 s"):
        burnish.bench("learner", limit=0.3, results=tmp_path)


def test_a_benchmark_that_fails_leaves_the_results_of_the_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured(benches: list[Benchmark], plan: measure.Plan) -> dict[str, BenchResult]:
        if plan.work.kind == "sft":
            raise burnish.RunError("trl ended with status 1")
        rounds = [{"ours": 2.0, **dict.fromkeys(plan.settings, 1.0)}]
        return {bench.name: made_up(bench.name, rounds) for bench in benches}

    monkeypatch.setattr(measure, "_measured", measured)
    with pytest.raises(measure.SomeFailedError, match="(?s)1 of 3 benchmarks failed:.*trl ended with status 1") as end:
        burnish.bench("memory", "sft-mixed", "learner", results=tmp_path)
    assert [result.name for result in end.value.results] == ["memory", "learner"]
    with pytest.raises(SystemExit) as exit:
        main(["bench", "memory", "sft-mixed", "learner", "--json", "--out", str(tmp_path), "--results", str(tmp_path)])
    shown = capsys.readouterr()
    assert exit.value.code == 1 and "sft-mixed: trl ended" in shown.err
    assert [json.loads(line)["name"] for line in shown.out.splitlines()] == ["memory", "learner"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["learner.json", "memory.json"]
    with pytest.raises(burnish.RunError, match="^trl ended with status 1$"):
        burnish.bench("sft-mixed", results=tmp_path)


def test_what_a_library_prints_does_not_disturb_the_reports(tmp_path: Path) -> None:
    with started([job("print('loading'); c.serve(lambda n: print('working') or {'number': n})")], tmp_path) as children:
        assert [children["peer"].go()["number"] for _ in range(3)] == [0, 1, 2]
    assert (tmp_path / "peer.log").read_text().split() == ["loading", "working", "working", "working"]


def test_other_work_than_was_asked_for_is_refused() -> None:
    for work, facts, figures, why in (
        (TINY, {}, {"length": 4.5}, "length is 4.5, not 5"),
        (SFT, {"trained_tokens": 31}, {"trained_tokens": 30}, "trained_tokens is 30, not 31"),
        (Work("engine", prompts=2, samples=2, new_tokens=3), {}, {"tokens": 11}, "tokens is 11, not 12"),
    ):
        with pytest.raises(burnish.RunError, match=f"trl did other work than was asked for: {why}"):
            check_work("trl", work, facts, figures)


def test_a_peer_that_is_not_installed_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(jobs, "find_spec", lambda name: None)
    with pytest.raises(burnish.InputError, match=r"burnish\[bench\]"):
        jobs.peer("trl", tmp_path, TINY, {}, DEFAULTS["trl"], None)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["grpo"], "there is no benchmark 'grpo'; there are grpo-short"),
        (["run"], "Missing argument"),
        (["grpo-short", "memory", "--out", "one.json"], "2 benchmarks are named, so give a folder"),
        (["engine-group", "--vllm-python", "nowhere"], "nowhere is no Python interpreter"),
        (["learner", "--runs", "0"], "--runs"),
    ],
)
def test_wrong_usage_is_told(
    words: list[str], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = status(capsys, "bench", *words)
    assert code == 2 and why in errors and "Traceback" not in errors
