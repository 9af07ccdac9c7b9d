"""What a run tells: figures, time left, and each way of telling it."""

from __future__ import annotations

import io
import json
import math

import pytest
from rich.console import Console

from burnish.errors import InputError
from burnish.running.progress import LineProgress, TimeLeft, duration, figures, make_progress


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _run(progress) -> None:
    progress.start("demo", 2)
    for done in range(5):
        progress.phase("evaluating", done, 4)
    for step in (1, 2):
        progress.phase("sampling", 0, 8)
        progress.step({"step": step, "reward": 0.5, "loss": math.nan, "timing/tokens_per_second": 1234.5})
    progress.message("done \x1b[31m[bold]")
    progress.finish({"steps": 2})


def _told(mode, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    with make_progress(mode, Console(file=stream, force_terminal=terminal, width=120)) as progress:
        _run(progress)
    return stream.getvalue()


def test_a_pipe_gets_one_plain_line_a_step() -> None:
    lines = _told("auto").splitlines()
    assert lines[0] == "demo"
    assert [line for line in lines if line.startswith("evaluating")] == [f"evaluating {n}/4" for n in range(5)]
    [last] = [line for line in lines if line.startswith("step 2/2")]
    assert "reward 0.500  loss -  1,234 tokens/s  left 0:00" in last
    assert lines[-1] == "done \\x1b[31m[bold]"  # an escape sequence in a message is shown, never sent


def test_a_terminal_gets_a_live_line_and_is_given_back() -> None:
    told = _told("auto", terminal=True)
    assert "2/2" in told and "reward 0.500" in told
    assert told.rindex("\x1b[?25h") > told.rindex("\x1b[?25l")  # the cursor is shown again


def test_the_terminal_is_given_back_when_a_run_raises() -> None:
    stream = io.StringIO()
    with pytest.raises(ZeroDivisionError), make_progress("live", Console(file=stream, force_terminal=True)) as progress:
        progress.start("demo", 2)
        raise ZeroDivisionError
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


def test_json_mode_writes_one_object_a_line() -> None:
    events = [json.loads(line) for line in _told("json").splitlines()]
    assert [e["event"] for e in events] == [
        "start",
        *["phase"] * 5,
        "phase",
        "step",
        "phase",
        "step",
        "message",
        "finish",
    ]
    assert events[7]["loss"] is None and events[7]["reward"] == 0.5  # JSON has no NaN
    assert events[-1]["summary"] == {"steps": 2}


def test_quiet_mode_says_nothing() -> None:
    assert _told("quiet") == ""


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(InputError, match="choose auto, live"):
        make_progress("loud")  # pyright: ignore[reportArgumentType]


def test_the_time_left_leaves_evaluations_out() -> None:
    clock = Clock()
    left = TimeLeft(10, clock)
    clock.now = 2.0
    assert left.step(1) == 18.0
    left.phase("evaluating", 0, 2)
    clock.now = 102.0
    left.phase("evaluating", 2, 2)
    clock.now = 104.0
    assert left.step(2) == 16.0


def test_a_measure_stays_in_sight_until_it_is_measured_again() -> None:
    stream = io.StringIO()
    progress = LineProgress(Console(file=stream, width=120))
    progress.start("demo", 2)
    progress.step({"step": 1, "accuracy": 0.25})
    progress.step({"step": 2, "loss": 1.0})
    assert "step 2/2  accuracy 25.0 %  loss 1  left 0:00" in stream.getvalue()


def test_figures_and_durations() -> None:
    assert figures({"reward/mean": 0.25, "other": 3, "loss": None}) == [("reward", "0.250")]
    assert [duration(s) for s in (0.4, 59.6, 3723)] == ["0:00", "1:00", "1:02:03"]
