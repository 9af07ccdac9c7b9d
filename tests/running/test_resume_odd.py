"""Resumes after odd ends: killed before it began, answers that failed, contents that changed, forced changes."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from burnish import InputError, RunError, train
from burnish.methods.recipe import Recipe
from burnish.models.spec import LoraSpec, ModelSpec
from tests.running.lives import Life, assert_same, evidence
from tests.running.test_kill_resume import recipe_of
from tests.running.test_resume import StopAt, crashed, dense, grpo
from tests.tiny import tiny_network, tiny_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def test_a_run_killed_before_it_had_begun_begins(tmp_path: Path) -> None:
    recipe = recipe_of(tmp_path, "sft", adapter=False)
    life = Life(recipe, tmp_path / "run", "--resume", "steps=2", fresh=True)
    while not (tmp_path / "run" / "heartbeat.json").exists():
        assert life.process.poll() is None
    life.process.kill()  # while torch or the model loads
    life.process.wait()
    assert not (tmp_path / "run" / "config.yaml").exists()
    Life(recipe, tmp_path / "run", "--resume", "steps=2").finish()
    assert (tmp_path / "run" / "final" / "model.safetensors").exists()


def test_answers_that_ended_a_run_are_asked_for_anew(model: Path, tmp_path: Path) -> None:
    there, calls = {"up": False}, Counter()

    def endpoint(completions: list[str], **columns: Any) -> list[float]:
        calls["asked"] += 1
        if not there["up"]:
            raise ConnectionError("no route \ud83d to the judge")  # half a character, as a broken answer may hold
        return dense(completions)

    with pytest.raises(RunError, match="no route"):
        train(grpo(model), out=tmp_path / "run", reward=endpoint)
    assert calls["asked"] == 4  # two prompts, and once more each with other samples (refills)
    there["up"] = True
    train(grpo(model), out=tmp_path / "run", reward=endpoint, resume=True)
    assert calls["asked"] == 4 + 12


def test_after_a_forced_change_nothing_of_before_is_replayed(model: Path, tmp_path: Path) -> None:
    def other(completions: list[str], **columns: Any) -> list[float]:
        return [-100.0 - len(c) for c in completions]

    out = crashed(grpo(model), tmp_path / "run", 3, "learning")
    with pytest.raises(KeyboardInterrupt):
        train(grpo(model), out=out, reward=other, resume=True, force=True, progress=StopAt(3, "learning"))
    train(grpo(model), out=out, reward=other, resume=True)
    rewards = [json.loads(line)["reward"] for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert all(r > 0 for r in rewards[:2]) and all(r < -99 for r in rewards[2:])


@pytest.mark.parametrize("victim", ["rows.jsonl", "model"])
def test_changed_contents_behind_the_same_recipe_are_refused(tmp_path: Path, victim: str) -> None:
    recipe = recipe_of(tmp_path, "sft", adapter=True)
    with pytest.raises(KeyboardInterrupt):
        _from(tmp_path, recipe, StopAt(3, "learning"))
    if victim == "model":
        tiny_network("llama", seed=1).save_pretrained(tmp_path / "model")
        key = "model.path"
    else:
        (tmp_path / victim).write_text((tmp_path / victim).read_text().replace("say 3", "say nothing"))
        key = "data.path"
    with pytest.raises(InputError, match=f"what {key} names has changed"):
        _from(tmp_path, recipe, StopAt(), resume=True)
    progress = StopAt()
    _from(tmp_path, recipe, progress, resume=True, force=True)
    assert any(f"not bit-equal: what {key} names has changed" in text for text in progress.messages)


def _from(folder: Path, recipe: Path, progress: StopAt, **options: Any) -> Any:
    before = Path.cwd()
    os.chdir(folder)
    try:
        return train(recipe, out="run", progress=progress, **options)
    finally:
        os.chdir(before)


def test_answers_are_kept_when_a_run_is_stopped_at_once(model: Path, tmp_path: Path) -> None:
    class Twice(StopAt):
        def phase(self, name: str, done: int, total: int) -> None:
            if (self.done, name) == self.at and not done:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(grpo(model), out=tmp_path / "run", reward=dense, progress=Twice(0, "learning"))
    assert '"answer"' in (tmp_path / "run" / "journal.jsonl").read_text("utf-8")
    train(grpo(model), out=tmp_path / "run", reward=dense, resume=True)
    assert_same(tmp_path / "run", train(grpo(model), out=tmp_path / "whole", reward=dense).out)


def test_forced_changes_of_rewards_and_of_the_optimizer_go_on(model: Path, tmp_path: Path) -> None:
    def other(completions: list[str], **columns: Any) -> list[float]:
        return dense(completions)

    sgd = {"optimizer": {"name": "sgd", "lr": 1e-3, "momentum": 0.9}}
    out = crashed(grpo(model, **sgd), tmp_path / "run", 3, "learning")
    train(grpo(model), out=out, reward=other, resume=True, force=True)
    assert json.loads((out / "summary.json").read_text("utf-8"))["optimizer_steps"] == 6


def test_a_forced_resume_that_is_refused_changes_nothing(model: Path, tmp_path: Path) -> None:
    def adapted(rank: int, **keys: Any) -> Recipe:
        spec = ModelSpec(path=str(model), adapter=LoraSpec(rank=rank))
        return grpo(model, **keys).model_copy(update={"model": spec})

    out = crashed(adapted(4), tmp_path / "run", 3, "learning")
    before = evidence(out)
    with pytest.raises(InputError, match="checkpoint of another model"):
        train(adapted(2), out=out, reward=dense, resume=True, force=True)
    assert evidence(out) == before
    train(adapted(4), out=out, reward=dense, resume=True)
    with pytest.raises(InputError, match="the run has done 6 steps, more than steps: 3"):
        train(adapted(4, steps=3), out=out, reward=dense, resume=True, force=True)


def test_evaluations_that_changed_are_told_of_and_not_compared(model: Path, tmp_path: Path) -> None:
    held_out = {"family": {"kind": "arithmetic", "count": 4, "split": "heldout"}}
    out = crashed(grpo(model, evaluation={"data": held_out, "max_tokens": 2}), tmp_path / "run", 3, "learning")
    progress = StopAt()
    changed = grpo(model, evaluation={"data": held_out, "max_tokens": 3})
    train(changed, out=out, reward=dense, resume=True, force=True, progress=progress)
    assert any("sampled otherwise" in text for text in progress.messages)
    assert "comparison" not in json.loads((out / "summary.json").read_text("utf-8"))
    second = crashed(grpo(model, evaluation={"data": held_out, "max_tokens": 2}), tmp_path / "second", 3, "learning")
    (second / "evaluations" / "step-000000.json").unlink()
    progress = StopAt()
    train(grpo(model, evaluation={"data": held_out, "max_tokens": 2}), out=second, reward=dense, resume=True,
          progress=progress)  # fmt: skip
    assert any("the evaluation before the first step is missing" in text for text in progress.messages)


def test_what_is_not_the_runs_own_stays(model: Path, tmp_path: Path) -> None:
    out = crashed(grpo(model), tmp_path / "run", 3, "learning")
    (out / ".gitignore").write_text("*")
    (out / ".link").symlink_to(tmp_path)
    (out / "traces" / ".step-000004.parquet.abc.parquet").write_bytes(b"half")
    (out / "checkpoints" / ".step-4.xyz").mkdir()
    train(grpo(model), out=out, reward=dense, resume=True)
    assert (out / ".gitignore").exists() and (out / ".link").is_symlink()
    assert [p.name for folder in ("traces", "checkpoints") for p in (out / folder).glob(".*")] == []


def test_a_reward_that_changes_the_folder_moves_no_file(model: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()

    def mover(completions: list[str], **columns: Any) -> list[float]:
        os.chdir(tmp_path / "elsewhere")
        return dense(completions)

    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        train(grpo(model, steps=2), out="run", reward=mover)
    finally:
        os.chdir(before)
    assert (tmp_path / "run" / "final").is_dir() and not list((tmp_path / "elsewhere").iterdir())


def test_weights_that_are_not_finite_are_not_saved(model: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not finite after the last step, so it is not saved"):
        train(grpo(model, steps=1, checkpoint_every=0, optimizer={"lr": 1e38}), out=tmp_path / "run", reward=dense)
    assert not (tmp_path / "run" / "final").exists()
