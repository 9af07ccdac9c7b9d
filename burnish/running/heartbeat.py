"""The heartbeat: a thread that writes once a second what a run is doing, and the stacks of all threads when it stalls.

The file is for other processes and for people who wonder whether a run still works; burnish/running/beats.py reads it.
Ages are taken from the monotonic clock, which nobody sets back. No torch here.
"""

from __future__ import annotations

import faulthandler
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from burnish.running.beats import HEARTBEAT, since_boot
from burnish.running.progress import Progress, duration

FROZEN = "stacks-frozen.txt"
"""Where the stacks go when the interpreter itself stands still, so that no Python code could choose a name."""

_LATE = 10
"""A beat this many times its period late says that the process, or its interpreter, stood still."""

_JOIN_SECONDS = 10.0
"""How long the end of a run waits for the thread, which may hang on a dead disk or terminal."""


@dataclass(frozen=True)
class _Mark:
    """Where the run is. A new one takes the place of the old in one assignment, so no reader sees half of it."""

    phase: str
    done: int
    total: int
    step: int
    began: float
    """When this phase began, on the monotonic clock."""
    moved: float
    """When anything of this last changed."""


class Heartbeat:
    """While the block runs, `run/heartbeat.json` is renewed every second.

    When (phase, done, step) has not changed for `stall_seconds` (0: never), the stacks of all threads are written to
    run/stacks-N.txt, once a stall, and `tell` gets a sentence; another one when the run goes on. `tell` is called from
    the heartbeat's thread. A disk that cannot be written is told of once and does not end the run. A call that holds
    the interpreter's lock keeps this thread from running too: then the watchdog of `faulthandler` (one a process)
    appends to run/stacks-frozen.txt, and `tell` hears of it when the call is over.

    `every` is the period in seconds, `clock` a monotonic clock.
    """

    def __init__(
        self,
        run: Path,
        *,
        stall_seconds: float,
        tell: Callable[[str], None],
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run, self.stall_seconds, self.every = run, stall_seconds, every
        self._tell, self._clock = tell, clock
        now = clock()
        self._mark = self._seen = _Mark("starting", 0, 1, 0, now, now)
        self._beaten, self._quiet = now, 0.0
        self._stalled: _Mark | None = None
        self._told_of_disk = False
        self._process = psutil.Process()
        self._about = {"pid": os.getpid(), "since_boot": since_boot(self._process), "host": socket.gethostname()}
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._watchdog: int | None = None
        self._dumped = 0

    def phase(self, name: str, done: int, total: int, step: int) -> None:
        """`done` of `total` things of this phase of step `step` are done. Cheap; any thread may call it."""
        mark = self._mark
        if (name, done, step) == (mark.phase, mark.done, mark.step):
            return
        now = self._clock()
        same = (name, step) == (mark.phase, mark.step)
        self._mark = _Mark(name, done, total, step, mark.began if same else now, now)

    def __enter__(self) -> Self:
        if self.stall_seconds:
            self._try(self._open_watchdog)
        self.beat()
        self._thread = threading.Thread(target=self._work, name="burnish-heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join(_JOIN_SECONDS)
        if self._watchdog is not None:
            faulthandler.cancel_dump_traceback_later()
            self._try(self._close_watchdog)
        if self._thread is None or not self._thread.is_alive():
            self._try(lambda: self._write(ended=True))

    def _work(self) -> None:
        while not self._end.wait(self.every):
            self.beat()

    def beat(self) -> None:
        """Renew the file and look for a stall; what the thread does every second."""
        now, mark = self._clock(), self._mark
        self._count_quiet(now, mark)
        if self._watchdog is not None:
            # later than a stall that this thread can see itself, and put off for as long as it runs
            faulthandler.dump_traceback_later(self.stall_seconds + _LATE * self.every, file=self._watchdog)
            self._try(self._thawed)
        self._try(self._write)
        if self._stalled is not None and mark is not self._stalled:
            self._say(f"the run goes on after {duration(now - self._stalled.moved)} without progress: {_place(mark)}")
            self._stalled = None
        if self.stall_seconds and self._quiet >= self.stall_seconds and self._stalled is None:
            self._stalled = mark
            self._say(
                f"no progress for {duration(now - mark.moved)} (guards.stall_seconds: {self.stall_seconds:g}): "
                f"{_place(mark)}; {self._dump(mark)}. The run is left to go on"
            )

    def _count_quiet(self, now: float, mark: _Mark) -> None:
        """Seconds without progress. Those in which this thread did not run either are no stall: a suspended machine."""
        late, self._beaten = now - self._beaten, now
        counted = 0.0 if late > _LATE * self.every else min(late, now - mark.moved)
        self._quiet = counted + (self._quiet if mark is self._seen else 0.0)
        self._seen = mark

    def _write(self, *, ended: bool = False) -> None:
        """heartbeat.json, whole or not at all; not flushed to disk, since after a power cut nobody needs it."""
        mark, now = self._mark, self._clock()
        content = {
            "phase": mark.phase, "done": mark.done, "total": mark.total, "step": mark.step,
            "age_seconds": round(now - mark.began, 3), "still_seconds": round(now - mark.moved, 3), "ended": ended,
            **self._about, "rss_bytes": self._process.memory_info().rss,
            "written_at": time.time(), "written_monotonic": time.monotonic(),
        }  # fmt: skip
        aside = self.run / f".{HEARTBEAT}.new"
        aside.write_text(json.dumps(content) + "\n", encoding="utf-8")
        os.replace(aside, self.run / HEARTBEAT)

    def _dump(self, mark: _Mark) -> str:
        """The stacks of all threads in a file of their own; says where."""
        number = 1
        while (self.run / f"stacks-{number}.txt").exists():
            number += 1
        path = self.run / f"stacks-{number}.txt"
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(f"no progress for {duration(self._clock() - mark.moved)}: {_place(mark)}\n\n")
                file.flush()  # faulthandler writes past Python's buffer
                faulthandler.dump_traceback(file, all_threads=True)
        except OSError as error:
            return f"what each thread is doing could not be written to {path} ({error.strerror or error})"
        return f"what each thread is doing stands in {path}"

    def _open_watchdog(self) -> None:
        self._watchdog = os.open(self.run / FROZEN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
        self._dumped = os.fstat(self._watchdog).st_size

    def _close_watchdog(self) -> None:
        if self._watchdog is None:
            return
        self._thawed()
        os.close(self._watchdog)
        self._watchdog = None
        if not self._dumped:
            (self.run / FROZEN).unlink(missing_ok=True)

    def _thawed(self) -> None:
        """Say so when the watchdog has written since the last look."""
        size = os.fstat(self._watchdog).st_size if self._watchdog is not None else self._dumped
        if size > self._dumped:
            self._dumped = size
            self._say(
                f"for more than {duration(self.stall_seconds)} nothing in this process ran: it was suspended, or one "
                f"call held the interpreter; what each thread was doing stands in {self.run / FROZEN}"
            )

    def _try(self, work: Callable[[], None]) -> None:
        """Nothing that a disk does to the heartbeat ends the run."""
        try:
            work()
        except OSError as error:
            if not self._told_of_disk:
                self._told_of_disk = True
                self._say(f"the heartbeat in {self.run} cannot be written ({error.strerror or error}); the run goes on")

    def _say(self, text: str) -> None:
        with suppress(OSError, ValueError):  # the terminal is gone: there is nobody left to tell
            self._tell(text)


def _place(mark: _Mark) -> str:
    return f"phase {mark.phase!r}, {mark.done} of {mark.total}, step {mark.step}"


class Watched:
    """A display that also tells the heartbeat where the run is. `step` steps are done already, in a resumed run."""

    def __init__(self, display: Progress, heartbeat: Heartbeat, step: int = 0) -> None:
        self.display, self.heartbeat = display, heartbeat
        self._step = step + 1

    def start(self, run_title: str, steps: int) -> None:
        """The run begins."""
        self.display.start(run_title, steps)

    def phase(self, name: str, done: int, total: int) -> None:
        """Something of a phase of the step under way is done."""
        self.heartbeat.phase(name, done, total, self._step)
        self.display.phase(name, done, total)

    def step(self, record: Mapping[str, Any]) -> None:
        """A step is over: what follows until the next phase is its writing down."""
        number = int(record["step"])
        self.heartbeat.phase("recording", 0, 1, number)
        self._step = number + 1
        self.display.step(record)

    def message(self, text: str) -> None:
        """Something a person should read."""
        self.display.message(text)

    def finish(self, summary: Mapping[str, Any]) -> None:
        """The run is over."""
        self.display.finish(summary)
