"""Processes of the command line, and of other modules, without the seconds that importing torch takes.

They are forks of a process that has imported it. Each is a process of its own, with its own pid, folder, environment
and limits, that can be killed at any moment; only its imports are not done anew. What is about the start of an
interpreter (what is imported when, other numbers of threads, other hashes of texts) needs a real start:
`tests.cli.commands.burnish`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[1]

_IMPORTED = (
    "burnish.cli", "burnish.api", "burnish.methods.grpo", "burnish.methods.sft", "burnish.running.talk",
    "transformers.models.llama.modeling_llama", "transformers.models.qwen2.modeling_qwen2",
)  # fmt: skip
"""What every run imports, directly or through one of these; no thread is started by it."""

_LONGEST = 1 << 20
"""Bytes of an order."""


class Forked:
    """A process, with the part of `subprocess.Popen` that the tests use."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        file_limit: int | None = None,
        module: str = "burnish.cli",
    ) -> None:
        """`python -m MODULE ARGUMENTS` in `cwd`. Beyond `file_limit` bytes the kernel writes no file."""
        (out, their_out), (err, their_err) = os.pipe(), os.pipe()
        self._mother = _mother()
        order = {
            "start": module, "arguments": list(arguments), "cwd": str(cwd), "file_limit": file_limit,
            "environment": {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(environment or {})},
        }  # fmt: skip
        self.pid: int = self._mother.ask(order, their_out, their_err)
        os.close(their_out)
        os.close(their_err)
        self.stdout: IO[str] = os.fdopen(out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, encoding="utf-8")
        self.returncode: int | None = None
        self.peak_memory = 0
        """Bytes of the most memory it has held, known when it has been waited for."""

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._ended(block=False)

    def wait(self) -> int:
        """Wait for its end; the exit status."""
        status = self._ended(block=True)
        assert status is not None
        return status

    def read(self) -> tuple[str, str]:
        """What it prints from here on to its end, on the output and on the errors."""
        with ThreadPoolExecutor(1) as aside:
            errors = aside.submit(self.stderr.read)
            return self.stdout.read(), errors.result()

    def _ended(self, *, block: bool) -> int | None:
        if self.returncode is None:
            self.returncode, self.peak_memory = self._mother.ask({"wait": self.pid, "block": block})
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing where it has been waited for."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def burnish(
    *arguments: str, cwd: Path, environment: Mapping[str, str] | None = None, file_limit: int | None = None
) -> subprocess.CompletedProcess[str]:
    """The command line of this checkout in a process of its own, waited for; what it printed."""
    process = Forked(arguments, cwd=cwd, environment=environment, file_limit=file_limit)
    printed, errors = process.read()
    return subprocess.CompletedProcess(arguments, process.wait(), printed, errors)


# ---------------------------------------------------------------- the process that is forked


class _Mother:
    """Our end: it is asked to fork, or how a fork ended."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.forked import serve; serve({theirs.fileno()})"],
                pass_fds=[theirs.fileno()], cwd=ROOT, stdin=subprocess.DEVNULL,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        atexit.register(self._end)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()

    def ask(self, order: Mapping[str, Any], *files: int) -> Any:
        """What it answers to an order, which takes open files along."""
        socket.send_fds(self._socket, [json.dumps(order).encode()], list(files))
        answer = self._socket.recv(_LONGEST)
        assert answer, f"the process that is forked ended with status {self._process.wait()}"
        return json.loads(answer)


@cache
def _mother() -> _Mother:
    return _Mother()


def serve(place: int) -> None:
    """The other end: import, and fork for each order to start; returns in a fork that has done what it should."""
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.freeze()  # a fork need not look at what all share
    orders = socket.socket(fileno=place)
    while True:
        words, files, _, _ = socket.recv_fds(orders, _LONGEST, 2)
        if not words:
            return
        order, answer = json.loads(words), None
        if "wait" in order:
            pid, status, usage = os.wait4(order["wait"], 0 if order["block"] else os.WNOHANG)
            answer = (os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024) if pid else (None, 0)
        else:
            answer = os.fork()
            if not answer:
                orders.close()
                _become(order, *files)
                return
            for file in files:
                os.close(file)
        orders.sendall(json.dumps(answer).encode())


def _become(order: Mapping[str, Any], out: int, err: int) -> None:
    for file, number in ((out, 1), (err, 2)):
        os.dup2(file, number)
        os.close(file)
    if order["file_limit"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["file_limit"],) * 2)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv = [order["start"], *order["arguments"]]
    runpy.run_module(order["start"], run_name="__main__", alter_sys=True)
