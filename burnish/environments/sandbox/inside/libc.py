"""System calls that `os` lacks in Python 3.11: namespaces, mounts, process controls, capabilities."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

NEWNS, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
"""Flags of unshare(2): which namespaces are made new."""

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
MNT_DETACH = 2
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV = 1, 2, 4
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 24, 38

PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(platform.machine())
_MOUNT_SETATTR, _CLOSE_RANGE = 442, 436  # the same numbers on every architecture
_CLOSE_RANGE_CLOEXEC = 4
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)


def _done(answer: int, what: str) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Leave the namespaces named by `flags` for new ones. Raises OSError, as all functions here."""
    _done(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that `fd` stands for."""
    _done(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    """mount(2)."""
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode() if kind else None)
    _done(
        _libc.mount(*arguments, ctypes.c_ulong(flags), options.encode() if options else None),
        f"mount {kind or source} on {target}",
    )


def umount(target: str) -> None:
    """Take a mount away at once; what is open in it stays until it is closed."""
    _done(_libc.umount2(os.fsencode(target), MNT_DETACH), f"umount {target}")


def seal_mount(target: str, attributes: int, *, everything_below: bool) -> None:
    """Add attributes (ATTR_*) to a mount, and to the mounts below it. mount_setattr(2), Linux 5.12."""
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    flags = ctypes.c_uint(_AT_RECURSIVE if everything_below else 0)
    path = os.fsencode(target)
    answer = _libc.syscall(
        ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), path, flags, wanted, ctypes.c_size_t(len(wanted))
    )
    _done(answer, f"mount_setattr {target}")


def pivot_root(new: str, old: str) -> None:
    """Make `new` the root directory, and put the former one at `old`."""
    if PIVOT_ROOT is None:
        raise OSError(f"pivot_root: the number of this system call on {platform.machine()} is not known")
    _done(_libc.syscall(ctypes.c_long(PIVOT_ROOT), os.fsencode(new), os.fsencode(old)), "pivot_root")


def prctl(option: int, value: int, what: str, pointer: ctypes.Array[ctypes.c_char] | None = None) -> None:
    """prctl(2) with one number, and for PR_SET_SECCOMP a structure."""
    zero = ctypes.c_ulong(0)
    _done(_libc.prctl(ctypes.c_int(option), ctypes.c_ulong(value), pointer or zero, zero, zero), what)


def sethostname(name: str) -> None:
    """Name this UTS namespace."""
    _done(_libc.sethostname(name.encode(), ctypes.c_size_t(len(name))), "sethostname")


def keep_descriptors_from_programs() -> None:
    """Every descriptor but 0, 1 and 2 closes when a program is started. close_range(2), Linux 5.11."""
    answer = _libc.syscall(
        ctypes.c_long(_CLOSE_RANGE), ctypes.c_uint(3), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(_CLOSE_RANGE_CLOEXEC)
    )
    _done(answer, "close_range")


def forget_capabilities() -> None:
    """No program that this process or its children start can have a capability: the bounding set becomes empty."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability, "prctl PR_CAPBSET_DROP")
        except OSError as error:
            if error.errno != errno.EINVAL or not capability:
                raise
            return  # past the last one that this kernel knows


def drop_capabilities() -> None:
    """Give up every capability that this thread has."""
    _done(_libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), bytes(24)), "capset")
