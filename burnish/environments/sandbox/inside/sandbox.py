"""One sandbox: process 1 of a new process namespace, a fork of the helper. It makes the rest and serves what is asked.

The user namespace comes last, so that not even this process has a right over the mounts and the network any more.
Everything in the sandbox dies with this process, and it dies with the helper.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import cgroups, files, libc, tree, wire
from .candidate import Setting
from .execution import Execution, HostGoneError

_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def main(channel: socket.socket, ready: socket.socket, *, root: bool, owner: int, group: Path | None) -> None:
    """Make the sandbox that the first message describes, then serve until the other side closes.

    `owner` is the candidate's user as seen from outside the sandbox. The other side is told when it cannot be made.
    """
    try:
        message = wire.receive(channel)
        if message is None:
            return
        limits = message[0]
        cgroup = _cgroup(group, limits)
        setting = Setting(limits, root, cgroup)
        oom = _enter(setting, ready, owner)
    except OSError as error:
        with suppress(OSError):
            wire.send(channel, {"error": str(error)})
        return
    with suppress(HostGoneError, ConnectionError):
        wire.send(channel, {"ready": True})
        _serve(channel, setting, oom)


def _enter(setting: Setting, ready: socket.socket, owner: int) -> int:
    """Make the namespaces and the root, and give up every right over them. Returns the machine's vmstat, open."""
    os.umask(0o022)
    libc.unshare(libc.NEWNS | libc.NEWNET | libc.NEWIPC | libc.NEWUTS)
    libc.sethostname("sandbox")
    if setting.limits["loopback"]:
        _raise_loopback()
    machine = os.open("/proc", os.O_PATH | os.O_DIRECTORY)
    oom = os.open("/proc/vmstat", os.O_RDONLY)
    tree.build(setting.limits, owner)
    libc.unshare(libc.NEWUSER)
    ready.send(b"1")
    answer = ready.recv(512)
    if answer != b"1":
        raise OSError(f"uid_map: {answer.decode() or 'the helper has ended'}")
    ready.close()
    if setting.root:
        os.setgroups([])
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    # after the change of user, which would undo it
    libc.prctl(libc.PR_SET_PDEATHSIG, signal.SIGKILL, "prctl PR_SET_PDEATHSIG")
    libc.prctl(libc.PR_SET_DUMPABLE, 0, "prctl PR_SET_DUMPABLE")
    libc.forget_capabilities()
    _no_namespaces_within(machine)
    os.close(machine)
    return oom


def _serve(channel: socket.socket, setting: Setting, oom: int) -> None:
    while True:
        message = wire.receive(channel)
        if message is None:
            return
        request, blob = message
        try:
            header, answer = _answer(request, blob, channel, setting, oom)
        except (OSError, MemoryError) as error:
            header, answer = {"error": str(error) or type(error).__name__}, b""
        wire.send(channel, header, answer)


def _answer(
    request: dict[str, Any], blob: bytes, channel: socket.socket, setting: Setting, oom: int
) -> tuple[dict[str, Any], bytes]:
    match request["ask"]:
        case "exec":
            return Execution(setting, request, blob, channel, oom).run()
        case "put":
            return {}, files.put(setting, request["path"], blob, request["mode"])
        case "get":
            return {}, files.get(setting, request["path"], request["most"])
        case _:
            disk, count = files.used()
            return {"disk": disk, "files": count}, b""


def _cgroup(group: Path | None, limits: dict[str, Any]) -> cgroups.Cgroup | None:
    if group is None:
        return None
    memory = limits["memory"] + limits["disk"]  # the writable file system is memory, too
    return cgroups.create(group, memory=memory, processes=limits["processes"])


def _no_namespaces_within(machine: int) -> None:
    """No candidate can make a user namespace, in which it would have rights again. `machine`: the outer /proc.

    The name leads to the limit of the user namespace that this process is in. Where /proc/sys is read-only, as in many
    containers, the filter of system calls stands alone.
    """
    with suppress(OSError):
        fd = os.open("sys/user/max_user_namespaces", os.O_WRONLY, dir_fd=machine)
        os.write(fd, b"0")
        os.close(fd)


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        name = b"lo".ljust(16, b"\0")
        flags = struct.unpack_from("=H", fcntl.ioctl(probe, _SIOCGIFFLAGS, name + bytes(24)), 16)[0]
        fcntl.ioctl(probe, _SIOCSIFFLAGS, name + struct.pack("=H", flags | _IFF_UP) + bytes(22))
