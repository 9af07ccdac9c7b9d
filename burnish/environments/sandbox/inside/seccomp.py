"""The filter of system calls for candidates: calls that reach past the sandbox, or that hide memory from its limits.

Everything is allowed but what is named here. The namespaces and the missing capabilities already refuse most of it; the
filter keeps these parts of the kernel out of reach, and closes ways around the limits: memory in files without a name,
a user namespace of one's own, socket families that network namespaces do not cover (AF_VSOCK reaches a hypervisor).
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from . import libc

# name: its number on x86_64 and on aarch64 (None: it does not exist there)
_DENIED: dict[str, tuple[int, int | None]] = {
    # other processes' memory
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "open_tree": (428, 428),
    "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "open_tree_attr": (467, 467), "unshare": (272, 97), "setns": (308, 268),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "fanotify_init": (300, 262),
    # kernel facilities with a history of faults, none of which a program under test needs
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # the machine
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "clock_adjtime": (305, 266), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "syslog": (103, 116), "vhangup": (153, 58), "iopl": (172, None), "ioperm": (173, None), "modify_ldt": (154, None),
    "uselib": (134, None),
    # memory that belongs to no process and lies in no limited file system
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "msgget": (68, 186),
    "semget": (64, 190), "mq_open": (240, 180),
}  # fmt: skip
_CLONE, _CLONE3, _SOCKET = (56, 220), (435, 435), (41, 198)
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK
_NEW_NAMESPACES = (
    libc.NEWNS | libc.NEWUTS | libc.NEWIPC | libc.NEWUSER | libc.NEWPID | libc.NEWNET | 0x2000000 | 0x80
)  # and cgroup, time

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # place in the pairs above, AUDIT_ARCH_*
_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data (the low half of an argument comes first)
_ALLOW, _REFUSE, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_MODE_FILTER = 2


def program() -> bytes | None:
    """The filter as instructions for the kernel; None on an architecture whose numbers are not known here."""
    if platform.machine() not in _ARCHITECTURES:
        return None
    place, architecture = _ARCHITECTURES[platform.machine()]
    lines = [
        _line(_LOAD, _ARCH),
        _line(_EQUAL, architecture, yes=1),
        _line(_RETURN, _KILL),  # a call in another ABI, whose numbers mean other calls
        _line(_LOAD, _NUMBER),
    ]
    if place == 0:  # x32 calls have this bit set
        lines += [_line(_AT_LEAST, 0x40000000, no=1), _line(_RETURN, _REFUSE | errno.ENOSYS)]
    for pair in _DENIED.values():
        number = pair[place]
        if number is not None:
            lines += [_line(_EQUAL, number, no=1), _line(_RETURN, _REFUSE | errno.EPERM)]
    # the flags of clone3 lie in memory, where a filter cannot look; without it the C library uses clone
    lines += [_line(_EQUAL, _CLONE3[place], no=1), _line(_RETURN, _REFUSE | errno.ENOSYS)]
    lines += [
        _line(_EQUAL, _CLONE[place], no=5),
        _line(_LOAD, _FIRST_ARGUMENT),
        _line(_AND, _NEW_NAMESPACES),
        _line(_EQUAL, 0, no=1),
        _line(_RETURN, _ALLOW),
        _line(_RETURN, _REFUSE | errno.EPERM),
    ]
    lines += [_line(_EQUAL, _SOCKET[place], yes=1), _line(_RETURN, _ALLOW), _line(_LOAD, _FIRST_ARGUMENT)]
    for family in _FAMILIES:
        lines += [_line(_EQUAL, family, no=1), _line(_RETURN, _ALLOW)]
    lines.append(_line(_RETURN, _REFUSE | errno.EAFNOSUPPORT))
    return b"".join(lines)


def install(instructions: bytes) -> None:
    """Put the filter on this process and all that come from it, for good. Needs no_new_privs."""
    code = ctypes.create_string_buffer(instructions, len(instructions))
    holder = struct.pack("@HP", len(instructions) // 8, ctypes.addressof(code))  # struct sock_fprog
    libc.prctl(libc.PR_SET_SECCOMP, _MODE_FILTER, "prctl PR_SET_SECCOMP", ctypes.create_string_buffer(holder))


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)  # struct sock_filter: jumps if the comparison holds, or not
