"""The mother of the workers: a lean process that imports the libraries once and forks a worker in milliseconds.

It has one thread, so forking is safe, and it imports neither torch nor the user's script, which is what the start
methods of `multiprocessing` would do. It alone ends workers and asks how they ended: a process id of its child cannot
have become another process. When the run that started it is gone, however it went, it ends its workers and itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import signal
import socket
import sys
import warnings

from burnish.feedback.workers.worker import serve

ORDER = 9
"""Bytes of an order: a letter (f: fork, e: end) and a process id."""

REPLY = 12
"""Bytes of a reply: a process id, then how the process ended as `os.waitpid` has it."""

UNKNOWN = 0xFFFFFFFF
"""How a process ended that is no child of this mother's."""


def main() -> None:
    """Obey the orders that come over the connection whose number is the first argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(control.fileno(), False)
    logging.disable(logging.WARNING)  # libraries warn of the very settings that make them safe here
    warnings.simplefilter("ignore")
    for module in sys.argv[2:]:
        with contextlib.suppress(ImportError):  # told when a check asks for it
            getattr(importlib.import_module(module), "warm", _nothing)()
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    control.sendall(_reply(os.getpid(), 0))
    try:
        while (order := _order(control)) is not None:
            name, pid, passed = order
            if name == b"f":
                control.sendall(_reply(_forked(control, passed, children), 0))
            else:
                control.sendall(_reply(pid, _ended(pid, children)))
    except ConnectionError:
        pass  # the run has gone in the middle of a sentence
    finally:
        for pid in list(children):
            _ended(pid, children)


def _nothing() -> None:
    """Most checks have nothing to make ready."""


def _order(control: socket.socket) -> tuple[bytes, int, list[int]] | None:
    data, passed, _, _ = socket.recv_fds(control, ORDER, 2)
    while data and len(data) < ORDER:
        more = control.recv(ORDER - len(data))
        if not more:
            return None
        data += more
    return (data[:1], int.from_bytes(data[1:], "big"), passed) if data else None


def _reply(pid: int, status: int) -> bytes:
    return pid.to_bytes(8, "big") + status.to_bytes(4, "big")


def _forked(control: socket.socket, passed: list[int], children: set[int]) -> int:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            control.close()
            serve(socket.socket(fileno=passed[0]), passed[1])
            status = 0
        except OSError:
            status = 0  # the other side has gone
        finally:
            os._exit(status)
    for number in passed:
        os.close(number)
    children.add(pid)
    return pid


def _ended(pid: int, children: set[int]) -> int:
    """End a child if it still runs; how it ended. One that is already ending keeps its own way."""
    if pid not in children:
        return UNKNOWN
    children.discard(pid)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]
