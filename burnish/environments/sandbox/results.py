"""How an execution went, and who is to blame when it failed: the candidate, or the machinery (promise E8)."""

from __future__ import annotations

import errno
import signal
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from burnish.errors import RunError


class Cause(StrEnum):
    """Who caused a failure. A candidate's is scored; the machinery's leaves nothing to score, and is missing."""

    CANDIDATE = "candidate"
    MACHINERY = "machinery"


class Ended(StrEnum):
    """How an execution ended."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    WALL_LIMIT = "wall_limit"
    CPU_LIMIT = "cpu_limit"
    MEMORY_LIMIT = "memory_limit"
    FAULT = "fault"
    """It was not run, or not to its end; `failure` says why."""


class SandboxError(RunError):
    """A sandbox could not be made, used, or reached. `cause` says whether a candidate brought that about."""

    def __init__(self, message: str, cause: Cause = Cause.MACHINERY) -> None:
        super().__init__(message)
        self.cause = cause


@dataclass(frozen=True)
class Failure:
    """Why an execution did not succeed, in words, and who caused it."""

    cause: Cause
    reason: str


@dataclass(frozen=True)
class Output:
    """What a program wrote: its first bytes, and how many there were."""

    data: bytes = b""
    total: int = 0

    @property
    def cut(self) -> bool:
        """Whether there was more than was kept."""
        return self.total > len(self.data)

    @property
    def text(self) -> str:
        """As UTF-8, each wrong byte as U+FFFD, with a last line that says so when it was cut."""
        text = self.data.decode("utf-8", "replace")
        return f"{text}\n[cut: {len(self.data)} of {self.total} bytes]" if self.cut else text


@dataclass(frozen=True)
class ExecResult:
    """One execution. `exit_code` is there when it exited, `signal` when it was killed, `failure` unless it exited 0."""

    ended: Ended
    exit_code: int | None
    signal: int | None
    stdout: Output
    stderr: Output
    wall_seconds: float
    cpu_seconds: float
    peak_memory: int
    """Bytes: the most that was seen of all processes together, or of one (about 10 MB at least: the sandbox's own)."""
    failure: Failure | None

    @property
    def ok(self) -> bool:
        """Whether the program exited with status 0."""
        return self.failure is None


@dataclass(frozen=True)
class SandboxStatus:
    """`state` is `ready`, `busy` (an execution is going on) or `closed`. Bytes and files count the writable part."""

    state: str
    executions: int
    disk_bytes: int | None = None
    files: int | None = None


def fault(reason: str, cause: Cause = Cause.MACHINERY) -> ExecResult:
    """The result of an execution that did not come about."""
    nothing = Output()
    return ExecResult(Ended.FAULT, None, None, nothing, nothing, 0.0, 0.0, 0, Failure(cause, reason))


def judge(facts: dict[str, Any], output: bytes, limits: dict[str, Any], program: str) -> ExecResult:
    """The result that a sandbox's facts amount to.

    What a candidate's program does is the candidate's: a wrong exit status, a signal, any limit. Three ends are not:
    the program is not there (unless candidates may write where it should be), the kernel killed processes because the
    whole machine was out of memory, and the clock ran out while one single thread waited for a processor most of the
    time, because other work kept the machine busy.
    """
    kept, total = facts["stdout"]
    stdout, stderr = Output(output[:kept], total), Output(output[kept:], facts["stderr"][1])
    ended, code, number, failure = _end(facts, limits, program)
    return ExecResult(ended, code, number, stdout, stderr, facts["wall"], facts["cpu"], facts["memory"], failure)


_End = tuple[Ended, int | None, int | None, Failure | None]


def _end(facts: dict[str, Any], limits: dict[str, Any], program: str) -> _End:
    if facts["failed"] is not None:
        number, text = facts["failed"]
        theirs = number == errno.E2BIG or program.startswith(("/work/", "/tmp/", "/dev/shm/", "./", "../"))
        return (
            Ended.FAULT,
            None,
            None,
            Failure(Cause.CANDIDATE if theirs else Cause.MACHINERY, f"{program} could not be started: {text}"),
        )
    status: int = facts["status"]
    code, number = (None, status & 127) if status & 127 else (status >> 8, None)
    if facts["stopped"] is not None:
        return _stopped(facts, limits)
    if status and facts["out_of_memory"] == "machine":
        reason = "the whole machine was out of memory, and the kernel killed processes"
        return Ended.FAULT, code, number, Failure(Cause.MACHINERY, reason)
    if status and facts["out_of_memory"] == "sandbox":
        return Ended.MEMORY_LIMIT, code, number, Failure(Cause.CANDIDATE, _memory(limits))
    if number == signal.SIGXCPU:
        return Ended.CPU_LIMIT, None, number, Failure(Cause.CANDIDATE, _cpu(limits))
    if number is not None:
        return Ended.SIGNALLED, None, number, Failure(Cause.CANDIDATE, f"killed by {_name(number)}")
    return Ended.EXITED, code, None, Failure(Cause.CANDIDATE, f"exit status {code}") if code else None


def _stopped(facts: dict[str, Any], limits: dict[str, Any]) -> _End:
    kill = int(signal.SIGKILL)
    if facts["stopped"] == "memory":
        return Ended.MEMORY_LIMIT, None, kill, Failure(Cause.CANDIDATE, _memory(limits))
    if facts["stopped"] == "cpu":
        return Ended.CPU_LIMIT, None, kill, Failure(Cause.CANDIDATE, _cpu(limits))
    seconds = limits["wall_seconds"]
    if facts["waited"] is not None and facts["waited"] > seconds / 2:
        reason = (
            f"the machine is too busy: of {seconds:g} s by the clock it waited {facts['waited']:.2f} s for a processor"
        )
        return Ended.FAULT, None, kill, Failure(Cause.MACHINERY, reason)
    return Ended.WALL_LIMIT, None, kill, Failure(Cause.CANDIDATE, f"ran past {seconds:g} s by the clock")


def _memory(limits: dict[str, Any]) -> str:
    return f"used more than {limits['memory'] / (1 << 20):g} MiB of memory"


def _cpu(limits: dict[str, Any]) -> str:
    return f"used more than {limits['cpu_seconds']:g} s of processor time"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
