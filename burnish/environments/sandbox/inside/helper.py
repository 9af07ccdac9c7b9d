"""The helper: a small process that forks a sandbox for each request. Forking a process that holds torch would be slow.

It is told over a socket: `new N` with a channel for sandbox N, `kill N`. When that socket closes it ends, and its
sandboxes with it. It lives in a process namespace of its own, so that they do even when it is killed, and without root
in a user namespace, which gives it the rights to make the others. Each sandbox then enters one more user namespace, in
which nobody has a right over its mounts and network.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from select import POLLIN, poll

from . import cgroups, libc, sandbox, wire
from .candidate import USER

FIRST_ID = 0x70000000
"""With root, user ids from here on are given to sandboxes, two to each: no account has them. Other users have one."""

_PLACES = 1 << 16


@dataclass(frozen=True)
class _Child:
    number: int
    pid: int
    ready: socket.socket  # it writes here when it needs its ids, and reads that it has them


class Helper:
    """Serves one control socket."""

    def __init__(self, control: socket.socket, root: bool, refusal: str) -> None:
        self.control, self.root, self.refusal = control, root, refusal
        self.name = f"burnish-{os.stat('/proc/self/ns/pid').st_ino}"  # of control groups: our process id is 1
        self.here = os.open("/proc/self/ns/pid", os.O_RDONLY)
        self.cgroup = cgroups.home()
        self.children: dict[int, _Child] = {}  # by process id
        self.poller = poll()
        self.woken, self.wake = os.pipe()
        for fd in (self.woken, self.wake):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for fd in (control.fileno(), self.woken):
            self.poller.register(fd, POLLIN)

    def serve(self) -> None:
        """Until the other side closes; then end every sandbox."""
        while True:
            ready = {fd for fd, _ in self.poller.poll()}
            for child in [child for child in self.children.values() if child.ready.fileno() in ready]:
                self._give_ids(child)
            if self.woken in ready:
                os.read(self.woken, 4096)
                self._collect(os.WNOHANG)
            if self.control.fileno() in ready and not self._obey():
                break
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)
        self._collect(0)

    def _obey(self) -> bool:
        message, fds, _, _ = socket.recv_fds(self.control, 64, 1)
        if not message:
            return False
        word, number = message.decode().split()
        if word == "kill":
            for child in [child for child in self.children.values() if child.number == int(number)]:
                os.kill(child.pid, signal.SIGKILL)
            return True
        os.set_inheritable(fds[0], False)  # a descriptor that comes over a socket is inheritable
        with socket.socket(fileno=fds[0]) as channel:
            refusal = self.refusal
            if not refusal:
                try:
                    self._new(channel, int(number))
                except OSError as error:
                    refusal = str(error)
            if refusal:
                with suppress(OSError):
                    wire.send(channel, {"error": refusal})
        return True

    def _new(self, channel: socket.socket, number: int) -> None:
        """Fork the first process of a new process namespace. Raises OSError."""
        ours, theirs = socket.socketpair()
        libc.unshare(libc.NEWPID)  # for the next child; then back to our own
        try:
            pid = os.fork()
            if not pid:
                ours.close()
                self._child(channel, theirs, number)
            self.children[pid] = _Child(number, pid, ours)
            self.poller.register(ours.fileno(), POLLIN)
        finally:
            theirs.close()
            libc.setns(self.here, libc.NEWPID)

    def _child(self, channel: socket.socket, ready: socket.socket, number: int) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for name in (signal.SIGCHLD, signal.SIGINT):  # a candidate's signals reach process 1 where it has a handler
                signal.signal(name, signal.SIG_DFL)
            for child in self.children.values():
                child.ready.close()
            self.control.close()
            for fd in (self.here, self.woken, self.wake):
                os.close(fd)
            owner = FIRST_ID + 2 * (number % _PLACES) + 1 if self.root else USER
            group = self.cgroup / f"{self.name}-{number}" if self.cgroup is not None else None
            sandbox.main(channel, ready, root=self.root, owner=owner, group=group)
        finally:
            os._exit(0)

    def _give_ids(self, child: _Child) -> None:
        """Say which ids of a sandbox's user namespace are which here."""
        self.poller.unregister(child.ready.fileno())
        with child.ready as ready:
            if not ready.recv(1):
                return  # it has ended
            first = FIRST_ID + 2 * (child.number % _PLACES)
            lines = f"0 {first} 1\n{USER} {first + 1} 1" if self.root else f"{USER} {USER} 1"
            try:
                _map(str(child.pid), lines, lines, keep_groups=not self.root)
                ready.send(b"1")
            except OSError as error:
                ready.send(str(error).encode())

    def _collect(self, flags: int) -> None:
        while self.children:
            pid, _ = os.waitpid(-1, flags)
            if not pid:
                return
            child = self.children.pop(pid)
            if child.ready.fileno() >= 0:
                self.poller.unregister(child.ready.fileno())
                child.ready.close()
            if self.cgroup is not None:
                with suppress(FileNotFoundError):
                    (self.cgroup / f"{self.name}-{child.number}").rmdir()


def main(control: socket.socket) -> None:
    """Be the helper."""
    gc.disable()  # little lives here, and a collection in a fork would copy pages
    gc.freeze()
    control.set_inheritable(False)
    root = os.geteuid() == 0 and all(_has_ids(name) for name in ("uid_map", "gid_map"))
    refusal = _apart(root)
    if not refusal:
        inner = os.fork()
        if inner:
            control.close()
            os.waitpid(inner, 0)
            return
        libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL, "prctl PR_SET_PDEATHSIG")
        refusal = _own_proc()
    Helper(control, root, refusal).serve()


def _has_ids(name: str) -> bool:
    """Whether this user namespace has the ids that sandboxes are given. A container's root often has 65536, or one."""
    with open(f"/proc/self/{name}") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    return any(first <= FIRST_ID and first + count >= FIRST_ID + 2 * _PLACES for first, _, count in ranges)


def _apart(root: bool) -> str:
    """Enter the helper's own namespaces. Returns why that is not possible, or nothing."""
    user, group = os.geteuid(), os.getegid()
    try:
        libc.unshare(libc.NEWPID | libc.NEWNS | (0 if root else libc.NEWUSER))
        if not root:
            _map("self", f"{USER} {user} 1", f"{USER} {group} 1", keep_groups=True)
    except OSError as error:
        return str(error)
    return ""


def _own_proc() -> str:
    try:
        libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
        libc.mount("proc", "/proc", "proc", libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC)
    except OSError as error:
        return str(error)
    return ""


def _map(pid: str, users: str, groups: str, *, keep_groups: bool) -> None:
    lines = {"setgroups": "deny"} if keep_groups else {}
    for name, text in {**lines, "uid_map": users, "gid_map": groups}.items():
        fd = os.open(f"/proc/{pid}/{name}", os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
