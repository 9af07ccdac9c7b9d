"""Resuming: what is taken up, what is refused, and what a run survives."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from burnish import InputError, RunError, train
from burnish.methods.recipe import Recipe
from burnish.running.checkpoints import numbered_checkpoints
from burnish.running.config import recipe_from_mapping
from burnish.running.interrupts import InterruptedRunError
from burnish.running.progress import QuietProgress
from tests.forked import Forked, burnish
from tests.running.lives import assert_same, evidence
from tests.tiny import tiny_network, tiny_tokenizer


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_network("llama").save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def dense(completions: list[str], **columns: Any) -> list[float]:
    return [c.count("e") + 0.1 * len(c) for c in completions]


def grpo(model: Path, **keys: Any) -> Recipe:
    return recipe_from_mapping({
        "method": "grpo", "steps": 6, "prompts_per_step": 2, "samples_per_prompt": 3, "checkpoint_every": 2,
        "deterministic": True, "traces_every": 1, "threads": 1, "model": {"path": str(model)},
        "data": {"family": {"kind": "arithmetic", "count": 8}}, "sampling": {"max_tokens": 4},
        "rewards": [{"kind": "numeric"}], "optimizer": {"lr": 1e-3}, **keys,
    })  # fmt: skip


class StopAt(QuietProgress):
    """Raises at a phase of a step, as a crash would; notes the messages."""

    def __init__(self, step: int = -1, phase: str = "", error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.error, self.done, self.messages = (step, phase), error, 0, []

    def step(self, record: Any) -> None:
        self.done = record["step"]

    def phase(self, name: str, done: int, total: int) -> None:
        if (self.done, name) == self.at:
            raise self.error

    def message(self, text: str) -> None:
        self.messages.append(text)


def crashed(recipe: Recipe, out: Path, step: int, phase: str, reward: Any = dense) -> Path:
    """A run that ended in a crash."""
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=out, reward=reward, progress=StopAt(step, phase))
    return out


def test_answers_from_outside_are_asked_for_once_and_replayed(model: Path, tmp_path: Path) -> None:
    """A reward that is never the same twice: the repeated steps get the answers of the first time."""
    dice, calls = random.Random(), Counter()

    def moody(completions: list[str], **columns: Any) -> list[float | None]:
        calls["asked"] += 1
        return [None if dice.random() < 0.2 else dice.random() for _ in completions]

    out = crashed(grpo(model), tmp_path / "run", 3, "learning", moody)  # the fourth step is judged and not trained
    before = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert calls["asked"] == 8
    train(grpo(model), out=out, reward=moody, resume=True)
    assert calls["asked"] == 12  # step 3 was replayed from the journal, and step 4; 5 and 6 were new
    after = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [r["reward"] for r in after[:3]] == [r["reward"] for r in before]
    assert [r["loss"] for r in after[:3]] == [r["loss"] for r in before]
    discarded = (out / "discarded" / "1" / "metrics.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["step"] for line in discarded] == [3]


def test_a_finished_run_is_left_as_it_is(model: Path, tmp_path: Path) -> None:
    out = train(grpo(model), out=tmp_path / "run", reward=dense).out
    before = evidence(out)
    result = train(grpo(model), out=out, reward=dense, resume=True)
    assert evidence(out) == before and result.summary["optimizer_steps"] == 6
    with pytest.raises(InputError, match="already holds a run: continue it with --resume"):
        train(grpo(model), out=out, reward=dense)


def test_resuming_where_there_is_nothing_yet_begins(model: Path, tmp_path: Path) -> None:
    out = train(grpo(model), out=tmp_path / "run", reward=dense, resume=True).out
    assert_same(out, train(grpo(model), out=tmp_path / "other", reward=dense).out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    with pytest.raises(InputError, match=r"holds other files and no run \(notes.txt"):
        train(grpo(model), out=tmp_path / "mine", reward=dense, resume=True)


def test_without_checkpoints_a_run_begins_again_and_keeps_the_old_records(model: Path, tmp_path: Path) -> None:
    recipe = grpo(model, checkpoint_every=0)
    out = crashed(recipe, tmp_path / "run", 3, "learning")
    train(recipe, out=out, reward=dense, resume=True)
    assert_same(out, train(recipe, out=tmp_path / "whole", reward=dense).out)
    assert len((out / "discarded" / "1" / "metrics.jsonl").read_text("utf-8").splitlines()) == 3
    assert not (out / "checkpoints").exists()


def test_a_changed_recipe_is_refused_by_key_unless_forced(model: Path, tmp_path: Path) -> None:
    out = crashed(grpo(model), tmp_path / "run", 3, "learning")
    changed = grpo(model, steps=8, optimizer={"lr": 2e-3})
    with pytest.raises(InputError, match=r"steps 6 -> 8; .*optimizer.lr 0.001 -> 0.002"):
        train(changed, out=out, reward=dense, resume=True)
    progress = StopAt()
    train(changed, out=out, reward=dense, resume=True, force=True, progress=progress)
    assert any("not bit-equal: steps 6 -> 8" in text for text in progress.messages)
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text("utf-8").splitlines()]
    assert [r["step"] for r in lines] == [*range(1, 9)] and lines[-1]["lr"] == 2e-3
    assert "steps: 8" in (out / "config.yaml").read_text("utf-8")
    with pytest.raises(InputError, match="add resume"):
        train(changed, out=tmp_path / "x", reward=dense, force=True)


def test_a_finished_run_can_be_extended(model: Path, tmp_path: Path) -> None:
    out = train(grpo(model), out=tmp_path / "run", reward=dense).out
    train(grpo(model, steps=8), out=out, reward=dense, resume=True, force=True)
    whole = train(grpo(model, steps=8), out=tmp_path / "whole", reward=dense).out
    assert evidence(out)["final/model.safetensors"] == evidence(whole)["final/model.safetensors"]
    assert (out / "discarded" / "1" / "summary.json").exists()


@pytest.mark.parametrize(
    "victim", ["model.safetensors", "state/parts.json", "manifest.json", "state/policy.safetensors"]
)
def test_a_torn_checkpoint_is_noticed_and_the_one_before_used(model: Path, tmp_path: Path, victim: str) -> None:
    out = crashed(grpo(model), tmp_path / "run", 5, "learning")
    file = out / "checkpoints" / "step-4" / victim
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1 if victim != "manifest.json" else 0
    file.write_bytes(content[:-1] if victim == "manifest.json" else bytes(content))
    progress = StopAt()
    train(grpo(model), out=out, reward=dense, resume=True, progress=progress)
    assert any("step-4 cannot be used" in text for text in progress.messages)
    assert any("resumed after step 2" in text for text in progress.messages)
    assert_same(out, train(grpo(model), out=tmp_path / "whole", reward=dense).out)


def test_metrics_with_a_torn_line_are_mended(model: Path, tmp_path: Path) -> None:
    out = crashed(grpo(model), tmp_path / "run", 4, "learning")
    with (out / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')  # what a full disk or a loss of power leaves
    with (out / "journal.jsonl").open("a") as file:
        file.write('{"event": "ans')
    train(grpo(model), out=out, reward=dense, resume=True)
    assert_same(out, train(grpo(model), out=tmp_path / "whole", reward=dense).out)
    # a line inside of what a checkpoint stands on: the checkpoint before it is taken
    second = crashed(grpo(model), tmp_path / "second", 4, "learning")
    lines = (second / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (second / "metrics.jsonl").write_bytes(b"".join([*lines[:2], b'{"step": 3, "loss": \n', lines[3]]))
    progress = StopAt()
    train(grpo(model), out=second, reward=dense, resume=True, progress=progress)
    assert any("metrics.jsonl does not hold its 4 steps" in text for text in progress.messages)
    assert_same(out, second)


def test_a_checkpoint_of_another_run_or_model_is_refused(model: Path, tmp_path: Path) -> None:
    out = crashed(grpo(model), tmp_path / "run", 5, "learning")
    other = crashed(grpo(model), tmp_path / "other", 5, "learning")
    shutil.rmtree(out / "checkpoints" / "step-4")
    shutil.copytree(other / "checkpoints" / "step-4", out / "checkpoints" / "step-4")
    with pytest.raises(InputError, match="step-4 is a checkpoint of another run"):
        train(grpo(model), out=out, reward=dense, resume=True)
    tiny_network("qwen2").save_pretrained(tmp_path / "qwen2")
    tiny_tokenizer().save_pretrained(tmp_path / "qwen2")
    with pytest.raises(InputError, match=r"step-4 is a checkpoint of another model: .* is .* in the state and"):
        train(grpo(tmp_path / "qwen2"), out=other, reward=dense, resume=True, force=True)
    assert len(numbered_checkpoints(other / "checkpoints")) == 2  # the refusal took nothing away


def test_two_runs_in_one_directory_are_refused(model: Path, tmp_path: Path) -> None:
    class Nested(QuietProgress):
        def phase(self, name: str, done: int, total: int) -> None:
            with pytest.raises(InputError, match=r"in use by another run \(process \d+\)"):
                train(grpo(model), out=tmp_path / "run", reward=dense, resume=True)

    assert train(grpo(model), out=tmp_path / "run", reward=dense, progress=Nested()).out.exists()


def test_a_directory_that_cannot_be_written_is_named(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, or lies below one"):
        train(grpo(model), out=tmp_path / "file" / "run", reward=dense)
    with pytest.raises(InputError, match="cannot be made or written: (Read-only|Permission|No such|Operation)"):
        train(grpo(model), out="/proc/self/run", reward=dense)


def test_checkpoints_are_retired_but_the_best_is_kept(model: Path, tmp_path: Path) -> None:
    evaluation = {
        "data": {"family": {"kind": "arithmetic", "count": 4, "split": "heldout"}},
        "max_tokens": 2,
        "every": 1,
    }
    recipe = grpo(model, checkpoint_every=1, keep_checkpoints=2, evaluation=evaluation)
    out = train(recipe, out=tmp_path / "run", reward=dense).out
    # every accuracy is 0: the first of equals is the best
    assert [step for step, _ in numbered_checkpoints(out / "checkpoints")] == [1, 5, 6]
    out = train(grpo(model, checkpoint_every=1, keep_checkpoints=3), out=tmp_path / "plain", reward=dense).out
    assert [step for step, _ in numbered_checkpoints(out / "checkpoints")] == [4, 5, 6]


def test_another_machine_is_not_called_bit_equal(model: Path, tmp_path: Path) -> None:
    out = crashed(grpo(model), tmp_path / "run", 3, "learning")
    manifest = out / "checkpoints" / "step-2" / "manifest.json"
    values = json.loads(manifest.read_text("utf-8"))
    values["environment"] |= {"torch": "2.0.0", "threads": 64, "processor": "abacus"}
    manifest.write_text(json.dumps(values), "utf-8")
    progress = StopAt()
    train(grpo(model), out=out, reward=dense, resume=True, progress=progress)
    [told] = [text for text in progress.messages if "not bit-equal" in text]
    assert "torch 2.0.0 ->" in told and "threads 64 -> 1" in told and "processor abacus ->" in told


def test_clocks_decide_nothing(model: Path, tmp_path: Path) -> None:
    """Every file from the future, as after a clock that was set back: the resume goes by numbers."""
    out = crashed(grpo(model), tmp_path / "run", 3, "learning")
    future = time.time() + 10 * 365 * 86400
    for number, path in enumerate(sorted(out.rglob("*"))):
        os.utime(path, (future - number, future - number))
    train(grpo(model), out=out, reward=dense, resume=True)
    assert_same(out, train(grpo(model), out=tmp_path / "whole", reward=dense).out)


def test_ctrl_c_finishes_the_step_and_saves_and_twice_stops_at_once(model: Path, tmp_path: Path) -> None:
    class Press(StopAt):
        times = 1

        def phase(self, name: str, done: int, total: int) -> None:
            if (self.done, name) == self.at and done == 0:
                for _ in range(self.times):
                    signal.raise_signal(signal.SIGINT)

    recipe, before = grpo(model, checkpoint_every=0), signal.getsignal(signal.SIGINT)
    with pytest.raises(InterruptedRunError, match="stopped after step 3 of 6, saved; go on with --resume"):
        train(recipe, out=tmp_path / "run", reward=dense, progress=Press(2, "sampling"))
    assert [step for step, _ in numbered_checkpoints(tmp_path / "run" / "checkpoints")] == [3]
    Press.times = 2
    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=tmp_path / "run", reward=dense, progress=Press(4, "learning"), resume=True)
    train(recipe, out=tmp_path / "run", reward=dense, resume=True)
    whole = train(recipe, out=tmp_path / "whole", reward=dense).out
    assert evidence(tmp_path / "run")["final/model.safetensors"] == evidence(whole)["final/model.safetensors"]
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_disk_at_every_write_stops_the_run_and_a_resume_ends_it_alike(model: Path, tmp_path: Path) -> None:
    """The kernel refuses files beyond a size, at one size after the other: each time another write fails."""
    recipe = tmp_path / "recipe.yaml"
    values = grpo(model).model_dump(mode="json")
    (tmp_path / "rewards.py").write_text(
        "def dense(completions, **c):\n    return [len(c) * 1.0 for c in completions]\n"
    )
    values["rewards"] = {"rewards": [{"kind": "function", "function": "rewards.py:dense"}]}
    recipe.write_text(json.dumps(values), "utf-8")
    run, refused = tmp_path / "run", []
    arguments = ["train", str(recipe), "--quiet", "--out"]
    for limit in (100, 1000, 4000, 12_000, 40_000, 90_000, 1 << 30):
        done = burnish(*arguments, str(run), "--resume", cwd=tmp_path, file_limit=limit)
        assert "Traceback" not in done.stderr, done.stderr[-2000:]
        if done.returncode == 0:
            break
        assert done.returncode == 1 and "could not be written" in done.stderr, (limit, done.stderr)
        refused.append(done.stderr.split(" could not")[0].rsplit("/", 1)[-1].split(":")[0])
    assert done.returncode == 0 and len(set(refused)) >= 3, refused
    assert burnish(*arguments, str(tmp_path / "whole"), cwd=tmp_path).returncode == 0
    assert_same(run, tmp_path / "whole")


def test_sigterm_during_an_export_leaves_no_half_a_model(model: Path, tmp_path: Path) -> None:
    process = Forked(["export", str(model), str(tmp_path / "out")], cwd=tmp_path)
    while process.poll() is None and not list(tmp_path.glob(".out.*")):
        time.sleep(0.001)  # the folder that is being filled
    process.send_signal(signal.SIGTERM)
    assert process.wait() in (143, 0)  # 0: the rename came first
    assert list(tmp_path.glob(".out.*")) == []
    assert not (tmp_path / "out").exists() or (tmp_path / "out" / "model.safetensors").exists()


def test_a_guard_stops_a_resumed_run_where_it_would_have_stopped_another(model: Path, tmp_path: Path) -> None:
    recipe = grpo(model, sampling={"max_tokens": 1}, guards={"truncated_steps": 5, "truncated_share": 0.01})
    stopped = "in 5 steps"
    with pytest.raises(RunError, match=stopped):
        train(recipe, out=tmp_path / "whole", reward=dense)
    out = crashed(recipe, tmp_path / "run", 3, "learning")
    with pytest.raises(RunError, match=stopped):
        train(recipe, out=out, reward=dense, resume=True)
    assert_same(out, tmp_path / "whole")
    # there it stays, until it is told to go on regardless
    regardless = grpo(model, sampling={"max_tokens": 1}, guards={"truncated_steps": 0, "truncated_share": 0.01})
    train(regardless, out=out, reward=dense, resume=True, force=True)
    assert json.loads((out / "summary.json").read_text("utf-8"))["optimizer_steps"] == 6


def test_a_guard_saves_before_it_stops(model: Path, tmp_path: Path) -> None:
    def silent(completions: list[str], **columns: Any) -> list[None]:
        return [None] * len(completions)

    recipe = grpo(model, checkpoint_every=0, guards={"silent_steps": 2})
    with pytest.raises(RunError, match="in 2 steps, none of 12 samples got a reward"):
        train(recipe, out=tmp_path / "run", reward=silent)
    assert [step for step, _ in numbered_checkpoints(tmp_path / "run" / "checkpoints")] == [2]
