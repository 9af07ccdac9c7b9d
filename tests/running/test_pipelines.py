"""Pipelines of tiny runs: what is done is kept, what changed is made anew and nothing else, what was killed goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from burnish import RunError, nodes
from burnish.pipelines import show_pipeline
from burnish.running.directory import RunDirectory
from burnish.running.journal import Journal
from burnish.running.pipelines.datasets import Dataset
from tests.running.pipeline_work import ALL, PIPELINE, REWARDS, hashes, inside, populate, rows, run, written

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder in which the pipeline has run once."""
    folder = tmp_path_factory.mktemp("finished") / "work"
    folder.mkdir()
    with inside(folder):
        populate(folder)
        assert run().made == ALL
    return folder


@pytest.fixture
def work(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, as the current one."""
    shutil.copytree(finished, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


@pytest.fixture
def fresh(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder before anything ran in it, as the current one."""
    shutil.copytree(finished, tmp_path / "work", ignore=shutil.ignore_patterns("out", "calls.txt"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


# ---------------------------------------------------------------- what runs, and what does not


def test_what_is_done_is_not_done_again(work: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (work / "out" / "artefacts").rglob("*")}
    again = run()
    assert again.made == [] and [node.id for node in again.nodes] == ALL
    assert {path: path.stat().st_mtime_ns for path in (work / "out" / "artefacts").rglob("*")} == before
    os.utime("tasks.jsonl", (1, 1))  # another age is no other content
    assert run().made == []


def _more_rows() -> None:
    rows("tasks.jsonl", 5)


def _other_rewards() -> None:
    Path("rewards.py").write_text(REWARDS.replace("len(c)", "-len(c)"))


def _other_weights() -> None:
    tensors = load_file("model/model.safetensors")
    larger = {name: tensor * np.float32(1.5) for name, tensor in tensors.items()}
    save_file(larger, "model/model.safetensors", {"format": "pt"})


def _other_recipe() -> None:
    Path("grpo.yaml").write_text(Path("grpo.yaml").read_text().replace("steps: 2", "steps: 3"))


def _other_template() -> None:
    Path("model/chat_template.jinja").write_text(Path("model/chat_template.jinja").read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "overrides", "expected"),
    [
        pytest.param(_more_rows, (), ["draw", "judged", "kept", "tune", "score", "apart"], id="a data file"),
        pytest.param(_other_rewards, (), ["judged", "kept", "tune", "score", "apart"], id="a reward function"),
        pytest.param(_other_weights, (), ALL, id="the weights of a model"),
        pytest.param(_other_recipe, (), ["apart"], id="a recipe"),
        pytest.param(None, ("tune.optimizer.lr=1e-2",), ["tune", "score"], id="a key of a recipe"),
        pytest.param(None, ("kept.best=1",), ["kept", "tune", "score"], id="a key of a filter"),
        pytest.param(None, ("score.max_tokens=2",), ["score"], id="a key of an evaluation"),
        pytest.param(None, ("seed=7",), ["draw", "judged", "kept", "tune", "score", "apart"], id="the seed"),
        pytest.param(lambda: rows("held.jsonl", 2, first=50), (), ["score"], id="held-out data"),
    ],
)
def test_a_change_makes_anew_exactly_what_depends_on_it(
    work: Path, change: Callable[[], None] | None, overrides: tuple[str, ...], expected: list[str]
) -> None:
    before = hashes(run())
    if change is not None:
        change()
    _, steps = show_pipeline("pipeline.yaml", out="out", overrides=overrides)
    first = expected[0]
    assert {s.node.id: s.state for s in steps}[first] == "to do"
    after = run(*overrides)
    assert after.made == expected
    kept = [id for id in ALL if id not in expected]
    assert {id: hashes(after)[id] for id in kept} == {id: before[id] for id in kept}
    changed = [id for id in expected if hashes(after)[id] != before[id]]
    assert changed[:1] == [first]
    assert run(*overrides).made == []
    if overrides:
        assert run().made == []  # what was made before is there still


def test_an_equal_result_of_a_changed_node_stops_the_change_there(work: Path) -> None:
    Path("rewards.py").write_text("# the same numbers\n" + REWARDS)
    assert run().made == ["judged", "apart"]


def test_a_renamed_node_and_a_second_pipeline_find_what_is_there(work: Path) -> None:
    nodes_ = {{"draw": "answers"}.get(name, name): body for name, body in PIPELINE["nodes"].items()}
    nodes_["judged"] = {"judge": {**PIPELINE["nodes"]["judged"]["judge"], "data": "@answers"}}
    written("renamed.yaml", {"pipeline": "renamed", "nodes": nodes_})
    assert run(pipeline="renamed.yaml").made == []


def test_show_says_why_something_would_run(work: Path) -> None:
    def why(*overrides: str) -> dict[str, str]:
        return {s.node.id: s.why for s in show_pipeline("pipeline.yaml", out="out", overrides=overrides)[1]}

    assert all(text.startswith("made 20") for text in why().values())
    assert why("tune.optimizer.lr=0.5")["tune"] == "optimizer.lr 0.001 -> 0.5"
    assert why("tune.optimizer.lr=0.5")["score"] == "waits for tune"
    _more_rows()
    assert why()["draw"] == "data.path tasks.jsonl has changed"
    assert why()["judged"] == "waits for draw"
    assert next(s.why for s in show_pipeline("pipeline.yaml", out="empty")[1]) == "not made yet"
    assert not Path("empty").exists()


# ---------------------------------------------------------------- killed, and gone on


def test_killed_between_and_within_nodes_it_ends_as_if_it_never_was(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = ("tune.steps=9", "tune.checkpoint_every=2")
    killed_when("out/artefacts/draw-*/provenance.json", *long)
    assert 1 <= len(list(Path("out/artefacts").glob("*/provenance.json"))) < len(ALL)
    with monkeypatch.context() as patched:
        append = RunDirectory.append_metrics

        def stopped(self: RunDirectory, record: Mapping[str, Any]) -> None:
            append(self, record)
            if record["step"] == 5 and "tune-" in str(self.path):
                raise KeyboardInterrupt

        patched.setattr(RunDirectory, "append_metrics", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(*long)
    [trained] = Path("out/artefacts").glob("tune-*")
    assert (trained / "run" / "checkpoints" / "step-4").is_dir() and not (trained / "provenance.json").exists()
    states = {s.node.id: s.state for s in show_pipeline("pipeline.yaml", out="out", overrides=long)[1]}
    assert [states[id] for id in ALL] == ["done", "done", "done", "half done", "waiting", "to do"]
    assert json.loads(Path("out/pipeline.json").read_text())["nodes"]["tune"]["status"] == "half done"
    finished = run(*long)
    assert finished.made == ["tune", "score", "apart"]
    steps = [json.loads(line)["step"] for line in (trained / "run" / "metrics.jsonl").read_text().splitlines()]
    assert steps == list(range(1, 10))
    resumed = [event for event in Journal(trained / "run" / "journal.jsonl").events() if event["event"] == "resumed"]
    assert [event["step"] for event in resumed] == [4]
    assert hashes(finished) == hashes(run(*long, out="never-killed"))


def killed_when(pattern: str, *overrides: str) -> None:
    """Run the pipeline in a process of its own and kill it when a file is there."""
    code = f"from burnish.pipelines import run_pipeline as r; r('pipeline.yaml', out='out', overrides={overrides!r})"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    try:
        while not list(Path().glob(pattern)):
            assert process.poll() is None, f"it ended before {pattern} was there"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "PROMPTS_PER_PART", 1)


def stopping_at(monkeypatch: pytest.MonkeyPatch, folder: str, part: int) -> None:
    """Let the writing of one part be interrupted, as by Ctrl-C twice."""
    write = Dataset.write

    def interrupted(self: Dataset, number: int, groups: Any) -> None:
        if number == part and folder in str(self.folder):
            monkeypatch.setattr(Dataset, "write", write)
            raise KeyboardInterrupt
        write(self, number, groups)

    monkeypatch.setattr(Dataset, "write", interrupted)


def test_a_sample_node_goes_on_after_its_last_part(
    fresh: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping_at(monkeypatch, "draw-", 2)
    with pytest.raises(KeyboardInterrupt):
        run()
    [folder] = Path("out/artefacts").glob("draw-*")
    first = (folder / "traces" / "part-000000.parquet").stat().st_mtime_ns
    assert json.loads(Path("out/pipeline.json").read_text())["nodes"]["draw"]["status"] == "half done"
    assert len(Dataset(folder).parts()) == 2
    only = {"nodes": {"draw": PIPELINE["nodes"]["draw"]}}
    result = run(pipeline=only)
    assert result.made == ["draw"] and len(Dataset(folder).parts()) == 4
    assert (folder / "traces" / "part-000000.parquet").stat().st_mtime_ns == first
    whole = run(pipeline=only, out="whole")
    assert (folder / "rows.jsonl").read_text() == (whole["draw"].artefact.path / "rows.jsonl").read_text()


def test_a_judge_asks_a_reward_function_once_for_each_group_however_often_it_is_interrupted(
    fresh: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = {"nodes": {name: PIPELINE["nodes"][name] for name in ("draw", "judged")}}
    stopping_at(monkeypatch, "judged-", 2)
    with pytest.raises(KeyboardInterrupt):
        run(pipeline=only)
    assert run(pipeline=only).made == ["judged"]
    assert sorted(Path("calls.txt").read_text().split()) == ["g0", "g1", "g2", "g3"]


def test_a_train_node_that_trained_nothing_fails_each_time(fresh: Path) -> None:
    Path("rewards.py").write_text("def longer(completions, **columns):\n    return [None] * len(completions)\n")
    only = {"nodes": {"apart": PIPELINE["nodes"]["apart"]}}
    for _ in range(2):
        with pytest.raises(RunError, match=r"node apart: no optimizer step was taken"):
            run(pipeline=only)
    node = json.loads(Path("out/pipeline.json").read_text())["nodes"]["apart"]
    assert node["status"] == "failed" and "no optimizer step" in node["error"]


# ---------------------------------------------------------------- repeats


def improving(repeat: int, **more: Any) -> dict[str, Any]:
    body = {
        "draw": {"sample": {"model": "@previous.tune", "data": "tasks.jsonl", "samples_per_prompt": 4,
                            "sampling": {"max_tokens": 4}}},
        "kept": {"filter": {"data": "@draw", "drop_truncated": False, "at_most": 3}},
        "tune": {"train": {"recipe": "sft.yaml",
                           "set": {"model.path": "@previous.tune", "data.path": "@kept", "prompts_per_step": 1}}},
    }  # fmt: skip
    return {"nodes": {"improve": {"repeat": repeat, "start": {"tune": "model"}, "nodes": body}, **more}}


def test_a_block_is_repeated_each_iteration_on_what_the_one_before_made(fresh: Path) -> None:
    score = {"score": {"evaluate": {"model": "@improve.tune", "data": "held.jsonl", "max_tokens": 2}}}
    two = run(pipeline=improving(2, **score))
    assert two.made == [f"improve.{n}.{i}" for i in (1, 2) for n in ("draw", "kept", "tune")] + ["score"]
    first, second = two["improve.tune.1"], two["improve.tune.2"]
    assert first.artefact.provenance["inputs"]["model.path"]["value"] == "model"
    assert second.artefact.provenance["inputs"]["model.path"]["node"] == "improve.tune.1"
    assert second.artefact.provenance["inputs"]["model.path"]["hash"] == first.artefact.hash("model")
    assert two["score"].artefact.provenance["inputs"]["model.path"]["node"] == "improve.tune.2"
    seeds = [two[f"improve.{n}.{i}"].artefact.provenance["settings"]["seed"] for i in (1, 2) for n in ("draw", "tune")]
    assert seeds == [0, 0, 1, 1]
    three = run("improve.repeat=3", pipeline=improving(2, **score))
    assert three.made == ["improve.draw.3", "improve.kept.3", "improve.tune.3", "score"]


def test_a_whole_pipeline_is_repeated_and_starts_from_another_node_of_a_block(fresh: Path) -> None:
    tune = {"train": {"recipe": "grpo.yaml", "set": {"model.path": "@previous.tune"}}}
    whole = {"repeat": 2, "seed": 5, "start": {"tune": "model"}, "nodes": {"tune": tune}}
    result = run(pipeline=whole)
    assert result.made == ["tune.1", "tune.2"]
    assert [n.artefact.provenance["settings"]["seed"] for n in result.nodes] == [5, 6]
    block = {"repeat": 2, "start": {"tune": "@first"}, "nodes": {"tune": tune}}
    first = {"train": {"recipe": "grpo.yaml", "set": {"seed": 5}}}
    again = run("seed=5", pipeline={"nodes": {"more": block, "first": first}})
    assert again["first"].status == "kept"  # it is tune.1 of the pipeline before
    assert again.made == ["more.tune.1", "more.tune.2"]
