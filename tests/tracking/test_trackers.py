"""Trackers store what a run tells them, continue after a resume, and can neither stop nor slow the run."""

from __future__ import annotations

import fcntl
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from burnish.errors import InputError
from burnish.tracking import Trackers, TrackerSpec, check
from tests.tracking.reading import (
    tensorboard_scalars,
    tensorboard_text,
    trackio_alerts,
    trackio_rows,
    wandb_files,
    wandb_history,
    wandb_records,
)

CONFIG = {"method": "grpo", "optimizer": {"lr": 1e-4}}


def spec(**keys: Any) -> TrackerSpec:
    return TrackerSpec.model_validate(keys)


def record(step: int, value: float) -> dict[str, Any]:
    """A step's record as the loop makes it: numbers, and what is none."""
    return {
        "step": step,
        "loss": value,
        "reward": math.nan,
        "grad_norm": math.inf,
        "timing/seconds": 2.0,
        "finished": True,
        "note": "text",
        "absent": None,
    }


def life(
    given: TrackerSpec, trackers: Path, steps: range, *, value: float, resume: int = 0, **finish: Any
) -> list[str]:
    """One life of a run with one tracker; what was told."""
    told: list[str] = []
    with Trackers([given], told.append) as tracked:
        tracked.start("mine", CONFIG, trackers, resume_step=resume)
        for step in steps:
            tracked.log(step, record(step, value))
        tracked.finish({"accuracy": 0.75, "after": {"estimate": 0.5}}, **finish)
    return told


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without accounts, and a network that leads nowhere."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("WANDB_API_KEY", "WANDB_MODE", "HF_TOKEN", "TRACKIO_DIR", "TRACKIO_SPACE_ID"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")


# ---------------------------------------------------------------- what is stored


def test_tensorboard_holds_the_finite_numbers_and_a_resumed_run_supersedes_later_steps(tmp_path: Path) -> None:
    told = life(spec(kind="tensorboard"), tmp_path, range(1, 6), value=1.0)
    assert len(told) == 1 and "tensorboard --logdir" in told[0]
    assert tensorboard_scalars(tmp_path) == {
        "loss": [(s, 1.0) for s in range(1, 6)],
        "timing/seconds": [(s, 2.0) for s in range(1, 6)],
    }
    life(spec(kind="tensorboard"), tmp_path, range(4, 8), value=3.0, resume=3)
    assert tensorboard_scalars(tmp_path)["loss"] == [(s, 1.0 if s <= 3 else 3.0) for s in range(1, 8)]
    assert '"lr": 0.0001' in tensorboard_text(tmp_path, "config")
    assert '"accuracy": 0.75' in tensorboard_text(tmp_path, "summary")


def test_trackio_holds_the_finite_numbers_and_a_resumed_run_goes_on_by_name(tmp_path: Path) -> None:
    given = spec(kind="trackio", project="sums", name="first")
    told = life(given, tmp_path, range(1, 4), value=1.0)
    assert len(told) == 1 and "trackio show --project sums" in told[0]
    life(given, tmp_path, range(2, 6), value=3.0, resume=1, failed=True)
    rows = trackio_rows(tmp_path, "sums")
    assert [(step, metrics) for _, _, step, metrics in rows] == [
        (step, {"loss": 1.0 if step <= 3 else 3.0, "timing/seconds": 2.0}) for step in range(1, 6)
    ]
    assert len({run for run, _, _, _ in rows}) == 1 and {name for _, name, _, _ in rows} == {"first"}
    assert trackio_alerts(tmp_path, "sums") == ["run failed"]


def test_wandb_offline_needs_neither_network_nor_account_and_a_resumed_run_keeps_its_id(tmp_path: Path) -> None:
    given = spec(kind="wandb", mode="offline", project="sums", entity="a-team", name="first")
    told = life(given, tmp_path, range(1, 4), value=1.0)
    assert len(told) == 1 and "wandb sync" in told[0]
    life(given, tmp_path, range(2, 6), value=3.0, resume=1, failed=True)
    files = wandb_files(tmp_path)
    runs = [next(r.run for r in wandb_records(file) if r.HasField("run")) for file in files]
    assert len(files) == 2 and len({run.run_id for run in runs}) == 1
    assert all((r.project, r.entity, r.display_name) == ("sums", "a-team", "first") for r in runs)
    assert {item.key for item in runs[0].config.update} >= {"method", "optimizer"}
    rows = [row for file in files for row in wandb_history(file)]
    assert [(row["_step"], row["loss"]) for row in rows] == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 3.0), (5, 3.0)]
    assert all(
        row["timing/seconds"] == 2.0 and not {"reward", "grad_norm", "finished", "note"} & set(row) for row in rows
    )
    codes = [r.exit.exit_code for file in files for r in wandb_records(file) if r.HasField("exit")]
    assert codes == [0, 1]
    summaries = [i.key for r in wandb_records(files[0]) if r.HasField("summary") for i in r.summary.update]
    assert "accuracy" in summaries


KILLED = """
import os, pathlib, signal, sys, time
from burnish.tracking import Trackers, TrackerSpec
tracked = Trackers([TrackerSpec(kind=kind) for kind in ("tensorboard", "trackio")], print)
tracked.start("mine", {}, pathlib.Path(sys.argv[1]))
for step in (1, 2, 3):
    tracked.log(step, {"loss": 1.0})
while not all(t._lines.empty() for t in tracked._trackers):
    time.sleep(0.01)
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_run_is_stored_and_a_resumed_one_waits_for_that(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -9
    told: list[str] = []
    with Trackers([spec(kind="tensorboard"), spec(kind="trackio")], told.append) as tracked:
        tracked.start("mine", {}, tmp_path, resume_step=2)  # at once: the first life's trackers are still at work
        tracked.log(3, {"loss": 2.0})
        tracked.log(4, {"loss": 2.0})
        tracked.finish({})
    assert tensorboard_scalars(tmp_path)["loss"] == [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0)]
    rows = trackio_rows(tmp_path)
    assert [(step, metrics["loss"]) for _, _, step, metrics in rows] == [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0)]
    assert len({run for run, _, _, _ in rows}) == 1
    assert trackio_alerts(tmp_path) == ["run failed"]  # the first life's


def test_a_tracker_holds_its_lock_before_it_has_started_itself(tmp_path: Path) -> None:
    """So that of two lives of a run the first is stored first, however long its tracker takes to start."""
    with Trackers([spec(kind="tensorboard")], print) as tracked:
        tracked.start("mine", {}, tmp_path)
        with (tmp_path / "tensorboard.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "tensorboard.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # let go of at the end


def test_what_lies_in_the_current_folder_is_not_taken_for_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tensorboard.py").write_text("raise RuntimeError('imported from the current folder')")
    monkeypatch.chdir(tmp_path)
    life(spec(kind="tensorboard"), tmp_path / "trackers", range(1, 3), value=1.0)
    assert len(tensorboard_scalars(tmp_path / "trackers")["loss"]) == 2


# ---------------------------------------------------------------- what goes wrong


def fake(monkeypatch: pytest.MonkeyPatch, folder: Path, init: str) -> TrackerSpec:
    """A wandb package that does `init` and nothing else."""
    folder.mkdir()
    (folder / "wandb.py").write_text(f"import os, time\nSettings = dict\ndef init(**keys):\n    {init}\n")
    monkeypatch.syspath_prepend(str(folder))
    return spec(kind="wandb")


def test_a_tracker_that_raises_is_told_of_once_and_the_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = fake(monkeypatch, tmp_path / "fake", "print('to stdout'); raise ConnectionError('no route')")
    told = life(given, tmp_path / "trackers", range(1, 50), value=1.0)
    assert len(told) == 1 and "tracker wandb: ConnectionError: no route" in told[0] and "goes on without it" in told[0]
    log = (tmp_path / "trackers" / "wandb.log").read_text()
    assert "to stdout" in log and "Traceback" in log


def test_a_tracker_that_dies_is_told_of_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = fake(monkeypatch, tmp_path / "fake", "os._exit(7)")
    told = life(given, tmp_path / "trackers", range(1, 50), value=1.0)
    assert len(told) == 1 and "ended unexpectedly" in told[0]


def test_a_tracker_that_hangs_costs_its_patience_at_the_end_and_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = fake(monkeypatch, tmp_path / "fake", "time.sleep(1e6)")
    told: list[str] = []
    tracked = Trackers([given], told.append, patience=0.5)
    tracked.start("mine", {}, tmp_path / "trackers")
    for step in range(1, 5000):
        tracked.log(step, {f"metric/{i}": 1.0 for i in range(20)})
    tracked.finish({})
    assert len(told) == 2 and "1000 steps behind" in told[0] and "was not done 0.5 s after the run" in told[1]
    [aside] = tracked._trackers
    assert aside._lines.qsize() <= 1000 and aside._process is not None and aside._process.returncode == -9


def test_a_place_that_cannot_be_written_is_told_of_once(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").write_text("a file in the way")
    told = life(spec(kind="tensorboard"), tmp_path, range(1, 5), value=1.0)
    assert len(told) == 1 and "FileExistsError" in told[0]
    (tmp_path / "taken").write_text("")
    told = life(spec(kind="tensorboard"), tmp_path / "taken", range(1, 5), value=1.0)
    assert len(told) == 1 and "could not be started" in told[0]


def test_wandb_online_without_an_account_is_told_of_once(tmp_path: Path) -> None:
    told = life(spec(kind="wandb"), tmp_path, range(1, 3), value=1.0)
    assert len(told) == 1 and "wandb" in told[0] and "goes on without it" in told[0]


def test_a_run_that_raises_ends_its_trackers_as_failed(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Trackers([spec(kind="trackio")], print) as tracked:
        tracked.start("mine", {}, tmp_path)
        tracked.log(1, {"loss": 1.0})
        raise ZeroDivisionError
    assert trackio_alerts(tmp_path) == ["run failed"]


def test_a_missing_package_is_refused_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    check([spec(kind="trackio")])
    monkeypatch.setitem(sys.modules, "trackio", None)
    with pytest.raises(InputError, match=r'trackio is not installed: `pip install "burnish\[trackers\]"`'):
        check([spec(kind="tensorboard"), spec(kind="trackio")])


def test_a_folder_called_wandb_is_not_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wandb").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "wandb", raising=False)
    with pytest.raises(InputError, match="wandb is not installed"):
        check([spec(kind="wandb")])


def test_two_trackers_of_a_kind_are_refused() -> None:
    with pytest.raises(InputError, match="tensorboard is there twice"):
        check([spec(kind="tensorboard"), spec(kind="tensorboard")])


@pytest.mark.parametrize(
    ("keys", "unused"),
    [
        ({"kind": "tensorboard", "project": "sums"}, "project"),
        ({"kind": "tensorboard", "name": "first"}, "name"),
        ({"kind": "trackio", "entity": "a-team"}, "entity"),
        ({"kind": "trackio", "mode": "offline"}, "mode"),
    ],
)
def test_a_key_that_does_nothing_for_a_kind_is_refused(keys: dict[str, str], unused: str) -> None:
    with pytest.raises(ValidationError, match=f"{unused}: unused by a tracker of kind {keys['kind']}"):
        TrackerSpec.model_validate(keys)


def test_a_kind_stands_for_a_tracker_and_a_resolved_spec_loads_again() -> None:
    for kind in ("tensorboard", "trackio", "wandb"):
        made = TrackerSpec.model_validate(kind)
        assert made == TrackerSpec.model_validate(made.model_dump())
