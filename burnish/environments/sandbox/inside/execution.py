"""One execution of a candidate's program, overseen by process 1: fed, listened to, limited, and cleaned up after."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from . import candidate
from .watch import Watch, waited

TICK = 0.02
"""Seconds between two looks at the clock and at what the processes use."""

_CHUNK = 1 << 16


@dataclass
class Caught:
    """What came out of a pipe: the first `most` bytes, and how many there were."""

    pipe: int
    most: int
    data: bytearray = field(default_factory=bytearray)
    total: int = 0

    def take(self) -> bool:
        """Read once. False: nothing will come any more."""
        try:
            part = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return True
        self.total += len(part)
        self.data += part[: self.most - len(self.data)]
        return bool(part)


class HostGoneError(Exception):
    """Whoever asked for this sandbox has closed it."""


class Execution:
    """Runs one program. `facts` afterwards says how it went, without judging whose fault it was."""

    def __init__(
        self, setting: candidate.Setting, request: dict[str, Any], blob: bytes, channel: socket.socket, oom: int
    ) -> None:
        self.setting, self.request, self.channel, self._oom = setting, request, channel, oom
        self._input = memoryview(blob)[: request["stdin"]]
        self._hidden: dict[str, bytes] = {}
        place = request["stdin"]
        for name, size in request["hidden"]:
            self._hidden[name] = blob[place : place + size]
            place += size
        self.watch = Watch()
        self._status: int | None = None
        self._reaped = 0.0  # processor seconds of the processes that have ended
        self._largest = 0  # bytes, of one process
        self._stopped: str | None = None  # the limit that ended it
        self._waited = 0.0

    def run(self) -> tuple[dict[str, Any], bytes]:
        """Facts, and the output: stdout and then stderr. Raises HostGoneError, and OSError where it cannot be done."""
        theirs, ours = self._pipes()
        failed_here, failed_there = os.pipe()
        oom_before = self._out_of_memory()
        start = time.monotonic()
        try:
            self._main = os.fork()
        except OSError:  # the machine has no process left; this sandbox may still be used when it has
            for fd in (*theirs, *ours, failed_here, failed_there):
                os.close(fd)
            raise
        if not self._main:
            self._child(theirs, failed_there)
        for fd in (*theirs, failed_there):
            os.close(fd)
        with os.fdopen(failed_here, "rb") as pipe:
            failure = pipe.read()  # ends when the program has started, or could not
        self._stdin = ours[0]
        self._out, self._err = (Caught(fd, self.request["output_bytes"]) for fd in ours[1:])
        try:
            if not failure:
                self._oversee(start)
            wall = time.monotonic() - start
            self._end()
            for caught in (self._out, self._err):
                while caught.take() and self._readable(caught.pipe):
                    pass
        finally:
            self._close_stdin()
            for fd in ours[1:]:
                os.close(fd)
        return self._facts(failure, wall, oom_before), bytes(self._out.data + self._err.data)

    def _facts(self, failure: bytes, wall: float, oom_before: tuple[int, int]) -> dict[str, Any]:
        oom = self._out_of_memory()
        return {
            "failed": json.loads(failure) if failure else None,
            "status": self._status,
            "stopped": self._stopped,
            "wall": wall,
            "cpu": max(self._reaped, self.watch.cpu_seconds),
            "memory": max(self._largest, self.watch.peak),
            "out_of_memory": "sandbox" if oom[1] > oom_before[1] else "machine" if oom[0] > oom_before[0] else None,
            "waited": self._waited if self.watch.alone else None,
            "stdout": [len(self._out.data), self._out.total],
            "stderr": [len(self._err.data), self._err.total],
        }

    def _pipes(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        stdin, out, err = os.pipe(), os.pipe(), os.pipe()
        theirs, ours = (stdin[0], out[1], err[1]), (stdin[1], out[0], err[0])
        for fd in theirs:
            os.fchown(fd, candidate.USER, candidate.USER)  # so that opening /dev/stdout works
        for fd in ours:
            os.set_blocking(fd, False)
        return theirs, ours

    def _child(self, stdio: tuple[int, int, int], failed: int) -> None:
        try:
            candidate.become(self.setting, self.request, stdio, self._hidden)
        except BaseException as error:  # noqa: BLE001 - this is a fork: it must end here, and tell why
            number = error.errno if isinstance(error, OSError) else None
            with suppress(OSError):
                os.write(failed, json.dumps([number, str(error) or type(error).__name__]).encode())
        os._exit(127)

    def _oversee(self, start: float) -> None:
        """Until the main process has ended or a limit is reached."""
        poll = select.poll()
        ended = os.pidfd_open(self._main)
        handlers = {caught.pipe: caught for caught in (self._out, self._err)}
        for fd in (*handlers, ended, self.channel.fileno()):
            poll.register(fd, select.POLLIN)
        poll.register(self._stdin, select.POLLOUT)
        looked = start
        try:
            while self._status is None:
                for fd, _ in poll.poll(TICK * 1000):
                    if fd == self._stdin and not self._feed():
                        poll.unregister(fd)
                        self._close_stdin()
                    elif fd == ended:
                        self._reap(block=False)
                    elif fd in handlers and not handlers[fd].take():
                        poll.unregister(fd)
                    elif fd == self.channel.fileno() and not self.channel.recv(1, socket.MSG_PEEK):
                        raise HostGoneError
                now = time.monotonic()
                if now - looked >= TICK and self._status is None:
                    looked = now
                    self._reap(block=False)
                    if self._over(now - start):
                        return
        finally:
            os.close(ended)

    def _over(self, wall: float) -> bool:
        """Whether a limit is reached; then `_stopped` says which."""
        limits = self.setting.limits
        self.watch.look(limits["memory"])
        if self.watch.memory > limits["memory"]:
            self._stopped = "memory"
        elif max(self.watch.cpu_seconds, self._reaped) > limits["cpu_seconds"]:
            self._stopped = "cpu"
        elif wall > self.request["wall_seconds"]:
            self._stopped = "wall"
            self._waited = waited()
        return self._stopped is not None

    def _feed(self) -> bool:
        """Write what fits. False: there is nothing more to write, or nobody who reads it."""
        try:
            self._input = self._input[os.write(self._stdin, self._input[:_CHUNK]) if self._input else 0 :]
        except BlockingIOError:
            return True
        except BrokenPipeError:
            return False
        return bool(self._input)

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def _end(self) -> None:
        """Kill every process but this one. As the first of its namespace it adopts and outlives them all."""
        while True:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            if not self._reap(block=True):
                return

    def _reap(self, *, block: bool) -> bool:
        """Collect ended processes: one with `block`, otherwise all that there are. False: no process is left."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, 0 if block else os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._reaped += usage.ru_utime + usage.ru_stime
            self._largest = max(self._largest, usage.ru_maxrss * 1024)
            if pid == self._main and self._status is None:
                self._status = status
            if block:
                return True

    def _readable(self, fd: int) -> bool:
        return bool(select.select([fd], [], [], 0)[0])

    def _out_of_memory(self) -> tuple[int, int]:
        """Processes that the kernel has killed so far for want of memory: on the machine, and in this sandbox."""
        vmstat = os.pread(self._oom, 1 << 16, 0)
        machine = next((int(line.split()[1]) for line in vmstat.splitlines() if line.startswith(b"oom_kill ")), 0)
        return machine, self.setting.cgroup.out_of_memory() if self.setting.cgroup else 0
