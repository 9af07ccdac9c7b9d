"""The heartbeat: what a run is doing and since when, its stacks when it stalls, and nothing that could end it."""

from __future__ import annotations

import ctypes
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from burnish.running.beats import Beat, describe_heartbeat, read_heartbeat
from burnish.running.heartbeat import Heartbeat, Watched

PATIENCE = 60.0
"""Longest wait for a thread that is due in milliseconds; only a broken heartbeat makes a test take so long."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Run:
    """A heartbeat that beats when told to, on a clock that is set by hand."""

    def __init__(self, path: Path, stall_seconds: float = 60.0) -> None:
        self.path, self.clock, self.told = path, Clock(), list[str]()
        self.heart = Heartbeat(path, stall_seconds=stall_seconds, tell=self.told.append, clock=self.clock)

    def live(self, seconds: float) -> None:
        """Beats over so many seconds, one every five."""
        for _ in range(int(seconds / 5)):
            self.clock.now += 5
            self.heart.beat()

    def beat(self) -> Beat:
        self.heart.beat()
        found = read_heartbeat(self.path)
        assert found is not None
        return found

    def stacks(self) -> list[str]:
        return sorted(p.name for p in self.path.glob("stacks-*.txt"))


def test_a_beat_says_phase_count_step_age_process_and_memory(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.clock.now += 100
    run.heart.phase("sampling", 0, 8, 3)
    run.clock.now += 4
    run.heart.phase("sampling", 2, 8, 3)
    run.clock.now += 3
    run.heart.phase("sampling", 2, 8, 3)
    beat = run.beat()
    assert (beat.phase, beat.done, beat.total, beat.step) == ("sampling", 2, 8, 3)
    content = json.loads((tmp_path / "heartbeat.json").read_text())
    assert (content["age_seconds"], content["still_seconds"]) == (7.0, 3.0)  # of the phase; since something moved
    assert beat.pid == os.getpid() and beat.alive is True and not beat.ended
    assert beat.rss_bytes > 1e6 and abs(beat.written_at - time.time()) < PATIENCE
    run.heart.phase("sampling", 0, 8, 4)  # the same phase of the next step begins anew
    run.beat()
    assert json.loads((tmp_path / "heartbeat.json").read_text())["age_seconds"] == 0
    assert [p.name for p in tmp_path.iterdir()] == ["heartbeat.json"]


def test_a_reader_never_sees_half_a_beat(tmp_path: Path) -> None:
    """A new beat is another file under the same name: who has the old one open reads it to its end."""
    run = Run(tmp_path)
    run.heart.phase("sampling", 0, 8, 3)
    run.beat()
    with (tmp_path / "heartbeat.json").open(encoding="utf-8") as old:
        run.heart.phase("learning", 0, 1, 3)
        assert run.beat().phase == "learning"
        assert json.loads(old.read())["phase"] == "sampling"


def test_the_thread_beats_while_the_block_runs_and_is_gone_after_it(tmp_path: Path) -> None:
    def beats(wanted: Callable[[Beat], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not ((found := read_heartbeat(tmp_path)) and wanted(found)):
            assert time.monotonic() < end
            time.sleep(0.002)

    with Heartbeat(tmp_path, stall_seconds=PATIENCE, tell=pytest.fail, every=0.005) as heart:
        beats(lambda beat: beat.phase == "starting")
        heart.phase("learning", 1, 4, 2)
        beats(lambda beat: beat.phase == "learning" and beat.done == 1)
        assert "burnish-heartbeat" in {thread.name for thread in threading.enumerate()}
    assert "burnish-heartbeat" not in {thread.name for thread in threading.enumerate()}
    last = read_heartbeat(tmp_path)
    assert last is not None and last.ended and last.phase == "learning"
    assert [p.name for p in tmp_path.iterdir()] == ["heartbeat.json"]  # nothing of the watchdog is left


def test_it_ends_with_a_run_that_raises(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Heartbeat(tmp_path, stall_seconds=9, tell=pytest.fail) as heart:
        heart.phase("sampling", 0, 1, 1)
        raise ZeroDivisionError
    assert "burnish-heartbeat" not in {thread.name for thread in threading.enumerate()}
    last = read_heartbeat(tmp_path)
    assert last is not None and last.ended


def test_many_threads_may_report_at_once(tmp_path: Path) -> None:
    """Each beat is one of the positions that were reported, never a mixture of two."""
    with Heartbeat(tmp_path, stall_seconds=PATIENCE, tell=pytest.fail, every=0.001) as heart:

        def report(name: str, step: int) -> None:
            for done in range(3000):
                heart.phase(name, done, 3000 + step, step)

        threads = [threading.Thread(target=report, args=(f"phase {n}", n)) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            found = read_heartbeat(tmp_path)
            assert found is not None
            if found.phase != "starting":
                assert found.phase == f"phase {found.step}" and found.total == 3000 + found.step
        heart.phase("learning", 0, 1, 9)
    found = read_heartbeat(tmp_path)
    assert found is not None and (found.phase, found.step) == ("learning", 9)


def test_a_stall_writes_the_stacks_once_and_says_which_phase_how_long_and_where(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.heart.phase("judging", 3, 8, 12)
    run.live(55)
    assert run.told == [] and run.stacks() == []
    run.live(500)
    [text] = run.told
    assert "no progress for 1:00" in text and "phase 'judging', 3 of 8, step 12" in text
    assert str(tmp_path / "stacks-1.txt") in text and "guards.stall_seconds" in text
    assert run.stacks() == ["stacks-1.txt"]
    content = (tmp_path / "stacks-1.txt").read_text()
    assert "phase 'judging', 3 of 8, step 12" in content.splitlines()[0]
    assert "test_a_stall_writes_the_stacks_once" in content


def test_a_run_that_goes_on_says_so_and_may_stall_again(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.heart.phase("judging", 3, 8, 12)
    run.live(100)
    run.heart.phase("judging", 4, 8, 12)
    run.live(55)
    assert len(run.told) == 2 and "goes on after 1:45 without progress: phase 'judging', 4 of 8" in run.told[1]
    run.live(30)
    assert len(run.told) == 3 and run.stacks() == ["stacks-1.txt", "stacks-2.txt"]


def test_a_resumed_run_keeps_the_stacks_of_its_earlier_life(tmp_path: Path) -> None:
    (tmp_path / "stacks-1.txt").write_text("earlier")
    Run(tmp_path).live(100)
    assert (tmp_path / "stacks-1.txt").read_text() == "earlier"
    assert (tmp_path / "stacks-2.txt").exists()


def test_with_0_seconds_nothing_is_a_stall(tmp_path: Path) -> None:
    run = Run(tmp_path, stall_seconds=0)
    run.live(2000)
    assert run.told == [] and run.stacks() == []


def test_a_suspended_machine_has_not_stalled(tmp_path: Path) -> None:
    """Hours in which this thread did not run either say nothing about the run; a stall after them is still seen."""
    run = Run(tmp_path)
    run.heart.phase("learning", 0, 1, 5)
    run.live(30)
    run.clock.now += 7200
    run.heart.beat()
    run.live(25)
    assert run.told == []
    run.live(5)
    assert len(run.told) == 1
    moved = Run(tmp_path)
    moved.heart.phase("learning", 0, 1, 6)  # moved since the last beat, then suspended
    moved.clock.now += 7200
    moved.heart.beat()
    assert moved.told == []


def test_the_thread_sees_a_stall_of_the_main_thread(tmp_path: Path) -> None:
    seen, told = threading.Event(), list[str]()

    def tell(text: str) -> None:
        if text.startswith("no progress"):
            told.append(text)
            seen.set()

    with Heartbeat(tmp_path, stall_seconds=0.05, tell=tell, every=0.01) as heart:
        heart.phase("sampling", 0, 8, 1)
        assert seen.wait(PATIENCE)
    assert "phase 'sampling', 0 of 8, step 1" in told[0]
    assert "test_the_thread_sees_a_stall" in (tmp_path / "stacks-1.txt").read_text()


def test_a_call_that_holds_the_interpreter_is_seen_by_the_watchdog(tmp_path: Path) -> None:
    """No Python thread runs meanwhile, as in a regular expression that explodes; the stacks are written."""
    frozen, heard = tmp_path / "stacks-frozen.txt", threading.Event()

    def tell(text: str) -> None:
        if "nothing in this process ran" in text and str(frozen) in text:
            heard.set()

    with Heartbeat(tmp_path, stall_seconds=0.2, tell=tell, every=0.02):
        for _ in range(30):
            ctypes.PyDLL(None).usleep(1_000_000)  # PyDLL keeps the lock
            if frozen.stat().st_size:
                break
        assert heard.wait(PATIENCE)
    assert "test_a_call_that_holds_the_interpreter" in frozen.read_text()


def test_a_disk_that_cannot_be_written_is_told_of_once_and_the_run_goes_on(tmp_path: Path) -> None:
    run = Run(tmp_path / "gone")
    run.live(200)
    broken = [t for t in run.told if "cannot be written" in t]
    assert len(broken) == 1 and str(tmp_path / "gone") in broken[0] and "the run goes on" in broken[0]
    [stall] = [t for t in run.told if "no progress" in t]
    assert "could not be written to" in stall
    (tmp_path / "gone").mkdir()
    assert run.beat().phase == "starting"
    told: list[str] = []
    with Heartbeat(tmp_path / "nowhere", stall_seconds=9, tell=told.append, every=0.001) as heart:
        heart.phase("sampling", 0, 1, 1)
    assert len(told) == 1


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
def test_a_terminal_that_is_gone_does_not_stop_the_beats(tmp_path: Path, error: type[Exception]) -> None:
    def tell(text: str) -> None:
        raise error(text)

    heart = Heartbeat(tmp_path, stall_seconds=10, tell=tell, clock=(clock := Clock()))
    for _ in range(10):
        clock.now += 5
        heart.beat()
    found = read_heartbeat(tmp_path)
    assert found is not None and (tmp_path / "stacks-1.txt").exists()


def changed(path: Path, **values: Any) -> Beat | None:
    """What is read when the file holds other values."""
    file = path / "heartbeat.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, **values}))
    try:
        return read_heartbeat(path)
    finally:
        file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "content",
    [b"", b'{"phase": "samp', b"null", b"[]", b'{"phase": "sampling"}', b"\xff\xfe", b"12"],
)
def test_a_torn_file_is_no_heartbeat(tmp_path: Path, content: bytes) -> None:
    assert read_heartbeat(tmp_path) is None and read_heartbeat(tmp_path / "absent") is None
    (tmp_path / "heartbeat.json").write_bytes(content)
    assert read_heartbeat(tmp_path) is None
    Run(tmp_path).beat()
    assert changed(tmp_path, pid="no number") is None and changed(tmp_path, pid=-3) is None
    assert "no heartbeat" in describe_heartbeat(None)


def test_a_dead_process_and_a_reused_number_are_not_alive(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.heart.phase("learning", 0, 1, 7)
    assert run.beat().alive is True
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = changed(tmp_path, pid=int(child.stdout))
    assert dead is not None and dead.alive is False and dead.since_written is None
    assert f"process {dead.pid} is gone; it was in phase 'learning', 0 of 1, step 7" in describe_heartbeat(dead)
    reused = changed(tmp_path, since_boot=json.loads((tmp_path / "heartbeat.json").read_text())["since_boot"] + 60)
    assert reused is not None and reused.alive is False


def test_of_another_machine_it_is_not_claimed_to_know(tmp_path: Path) -> None:
    Run(tmp_path).beat()
    other = changed(tmp_path, host=socket.gethostname() + "-2")
    assert other is not None and other.alive is None and other.since_written is None
    assert "cannot be seen from here" in describe_heartbeat(other)


def test_a_clock_that_is_set_back_changes_no_age_and_no_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tmp_path)
    run.heart.phase("sampling", 1, 8, 2)
    run.clock.now += 30
    run.heart.beat()
    day, wall, boot, created = 86400.0, time.time, psutil.boot_time, psutil.Process.create_time
    monkeypatch.setattr(time, "time", lambda: wall() - day)
    monkeypatch.setattr(psutil, "boot_time", lambda: boot() - day)
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: created(self) - day)
    found = read_heartbeat(tmp_path)
    assert found is not None and found.alive is True
    assert found.since_written is not None and 0 <= found.since_written < PATIENCE
    assert found.age == pytest.approx(30 + found.since_written) and found.still == found.age


def test_the_line_says_what_a_live_run_is_doing(tmp_path: Path) -> None:
    run = Run(tmp_path)
    run.heart.phase("sampling", 0, 8, 2)
    run.clock.now += 61
    run.heart.phase("sampling", 3, 8, 2)
    run.beat()
    fresh = changed(tmp_path, written_monotonic=time.monotonic(), rss_bytes=1_260_000_000)
    line = describe_heartbeat(fresh)
    assert re.search(r"is in phase 'sampling', 3 of 8, step 2, for 1:0\d, last progress 0:0\d ago, 1.3 GB$", line)
    assert line.startswith(f"process {os.getpid()} ")
    stale = changed(tmp_path, written_monotonic=time.monotonic() - 700)
    assert re.search(r"lives but has not beaten for 11:4\d: ", describe_heartbeat(stale))
    ended = changed(tmp_path, ended=True)
    assert describe_heartbeat(ended) == "it ended in phase 'sampling', 3 of 8, step 2"


class Told:
    """A display that notes what it is told."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def start(self, run_title: str, steps: int) -> None:
        self.calls.append(("start", run_title, steps))

    def phase(self, name: str, done: int, total: int) -> None:
        self.calls.append(("phase", name, done, total))

    def step(self, record: Mapping[str, Any]) -> None:
        self.calls.append(("step", record))

    def message(self, text: str) -> None:
        self.calls.append(("message", text))

    def finish(self, summary: Mapping[str, Any]) -> None:
        self.calls.append(("finish", summary))


def test_a_watched_display_is_told_everything_and_the_heartbeat_where_the_run_is(tmp_path: Path) -> None:
    run, display = Run(tmp_path), Told()
    watched = Watched(display, run.heart, step=7)
    watched.start("demo", 20)
    watched.phase("sampling", 2, 8)
    beat = run.beat()
    assert (beat.phase, beat.done, beat.total, beat.step) == ("sampling", 2, 8, 8)
    watched.step({"step": 8, "loss": 0.5})
    assert (run.beat().phase, run.beat().step) == ("recording", 8)
    watched.phase("sampling", 0, 8)
    assert (run.beat().phase, run.beat().step) == ("sampling", 9)
    watched.message("well")
    watched.finish({"steps": 20})
    assert display.calls == [
        ("start", "demo", 20), ("phase", "sampling", 2, 8), ("step", {"step": 8, "loss": 0.5}),
        ("phase", "sampling", 0, 8), ("message", "well"), ("finish", {"steps": 20}),
    ]  # fmt: skip


def test_reading_and_writing_a_heartbeat_imports_no_torch() -> None:
    code = "import sys, burnish.running.heartbeat, burnish.running.beats; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
