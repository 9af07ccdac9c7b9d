"""A pool of worker processes that check answers, and what becomes of a check whose worker is lost.

Each of the pool's threads owns one worker. A check may take so much processor time and so much memory; what a worker
ends with tells whose fault it was. A worker that was ended from outside, or that stands still without computing, is the
machinery's fault: the check is missing (promise E8).
"""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from burnish.feedback.workers.frames import LONGEST_REPLY, receive, send
from burnish.feedback.workers.nursery import Nursery, PoolBrokenError
from burnish.feedback.workers.worker import NUMBER

JOBS_OF_A_WORKER = 2000
"""After so many checks a worker is replaced, so that no library's caches grow for ever."""

PATIENCE = 60.0
"""Seconds on the wall, beyond a check's processor time, after which its worker counts as stuck."""

_CRASHES = {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL, signal.SIGXCPU}


@dataclass(frozen=True)
class Job:
    """What a worker is asked: the name of a check ("module:function"), its argument, and its limits."""

    check: str
    argument: dict[str, Any]
    seconds: float
    """Processor time for each of the two parts."""
    memory: int
    """Bytes beyond what the worker has in use."""


Answer = dict[str, Any]
"""value, kind, reason; or missing (the kind of fault) and reason. JSON values."""


class Pool:
    """`workers` processes, started when the first job comes. Safe to use from several threads and event loops."""

    def __init__(self, workers: int = 2, preload: Sequence[str] = (), patience: float = PATIENCE) -> None:
        self.workers = workers
        self.patience = patience
        self._preload = list(preload)
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def submit(self, job: Job) -> Future[Answer]:
        """Ask for a check. The future never raises: whatever goes wrong is an answer with `missing`."""
        with self._lock:
            if self._running is None:
                self._running = _Running(Nursery(self._preload), self.workers, self.patience)
                weakref.finalize(self, self._running.close)
            future: Future[Answer] = Future()
            self._running.jobs.put((job, future))
            return future

    def processes(self) -> list[int]:
        """Process ids of the workers that live now."""
        running = self._running
        return [] if running is None else [w.pid for w in list(running.owned.values()) if w is not None]

    def close(self) -> None:
        """End all processes; what is in hand is answered as missing. The next job starts the pool again."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close()


class _Running:
    """The threads of a pool and what they share. It does not know its pool, so that a forgotten pool is closed."""

    def __init__(self, nursery: Nursery, workers: int, patience: float) -> None:
        self.nursery = nursery
        self.jobs: queue.SimpleQueue[tuple[Job, Future[Answer]] | None] = queue.SimpleQueue()
        self.owned: dict[int, _Worker | None] = dict.fromkeys(range(workers))
        self.closed = False
        self._threads = [
            threading.Thread(target=self._work, args=(i, patience), name=f"burnish-checks-{i}", daemon=True)
            for i in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self.closed = True
        for _ in self._threads:
            self.jobs.put(None)
        self.nursery.close()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(5.0)

    def _work(self, place: int, patience: float) -> None:
        while (item := self.jobs.get()) is not None:
            job, future = item
            if not future.set_running_or_notify_cancel():
                continue
            try:
                answer = self._checked(place, job, patience)
            except PoolBrokenError as error:
                answer = _missing("pool_broken", str(error))
            except Exception as error:  # noqa: BLE001 - a fault of ours: told as an answer, or nobody would ever wake
                answer = _missing("pool_broken", f"{type(error).__name__}: {error}")
            future.set_result(answer)
        self._let_go(place)

    def _checked(self, place: int, job: Job, patience: float) -> Answer:
        for _ in range(2):  # one that was lost between two jobs has cost nothing: another takes its place
            if self.closed:
                return _missing("pool_broken", "the pool was closed")
            worker = self.owned[place]
            if worker is None or worker.jobs >= JOBS_OF_A_WORKER:
                self._let_go(place)
                worker = self.owned[place] = _Worker(*self.nursery.fork())
            answer = worker.ask(job, patience)
            if answer is not None:
                return answer
            worker.look_back()
            answer = worker.lost(job, self._let_go(place))
            if worker.delivered:
                return answer
        return answer

    def _let_go(self, place: int) -> int | None:
        """End the worker of a thread; how it ended."""
        worker, self.owned[place] = self.owned[place], None
        if worker is None:
            return None
        status = self.nursery.end(worker.pid)
        if status is None and worker.stuck:
            os.kill(worker.pid, signal.SIGKILL)  # an orphan that still holds the connection, so the id is its own
        worker.close()
        return status


class _Worker:
    """One worker and how far it has come with its job."""

    def __init__(self, pid: int, connection: socket.socket, progress: int) -> None:
        self.pid, self.connection, self.progress = pid, connection, progress
        self.jobs = 0
        self.delivered = self.begun = self.stuck = False

    def ask(self, job: Job, patience: float) -> Answer | None:
        """The answer, or None when the worker is lost."""
        self.jobs += 1
        self.delivered = False
        deadline = time.monotonic() + 2 * job.seconds + patience
        message = {
            "check": job.check, "job": job.argument, "seconds": job.seconds, "memory": job.memory, "number": self.jobs
        }  # fmt: skip
        try:
            send(self.connection, message, deadline)
            self.delivered = True
            return receive(self.connection, deadline, LONGEST_REPLY)
        except TimeoutError:
            self.stuck = self.delivered = True
        except (OSError, ValueError):
            pass  # it has gone, or talks nonsense: either way `lost` says so
        return None

    def look_back(self) -> None:
        """Whether the worker, now dead or given up, had turned to the candidate's text of its last job."""
        os.set_blocking(self.progress, False)
        said = b""
        while True:
            try:
                more = os.read(self.progress, 1 << 16)
            except BlockingIOError:
                break
            if not more:
                break
            said += more
        self.begun = int.from_bytes(said[-NUMBER:], "big") == self.jobs

    def close(self) -> None:
        """Let go of what connects to it."""
        self.connection.close()
        os.close(self.progress)

    def lost(self, job: Job, status: int | None) -> Answer:
        """What it means that the worker ended with `status` (of os.waitpid; None: unknown) in the middle of a job."""
        if self.stuck:
            return _missing("worker_stuck", f"worker {self.pid} stood still without computing")
        number = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else None
        if number == signal.SIGPROF:
            spent = f"more than {job.seconds:g} s of processor time"
            if self.begun:
                return {"value": 0.0, "kind": "time_limit", "reason": f"checking the answer took {spent}"}
            return _missing("key_limit", f"reading the right answer took {spent}")
        exited = status is not None and os.WIFEXITED(status)
        if self.begun and (exited or number in _CRASHES):
            how = signal.Signals(number).name if number else "an exit"
            return {"value": 0.0, "kind": "crashed", "reason": f"checking the answer ended its process by {how}"}
        how = signal.Signals(number).name if number else "nobody knows what"
        return _missing("worker_killed", f"worker {self.pid} was ended from outside by {how}")


def _missing(kind: str, reason: str) -> Answer:
    return {"missing": kind, "reason": reason}
