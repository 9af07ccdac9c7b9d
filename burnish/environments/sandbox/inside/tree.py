"""The private root directory of a sandbox: read-only programs, one limited writable file system, a /proc of its own."""

from __future__ import annotations

import os
import stat
from typing import Any

from . import libc

BASE = "/tmp"  # where the new root is put together; any directory that exists would do
OLD = "/old"  # the machine's root, inside the new one, until everything is in place
WRITABLE = {"work": "/work", "tmp": "/tmp", "shm": "/dev/shm"}
"""Directories that a candidate may write: they share one file system and its limits."""
HIDDEN = "/hidden"
"""Where hidden files are, for a verifying process only."""

_DEVICES = ("null", "zero", "full", "random", "urandom")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # links into /usr, or directories of their own
_COPIED = ("/etc/ld.so.cache", "/etc/localtime")
_BOUND = ("/usr", "/etc/alternatives")
_WRITTEN = {
    "/etc/passwd": "root:x:0:0::/:/bin/sh\nsandbox:x:1000:1000::/work:/bin/sh\n",
    "/etc/group": "root:x:0:\nsandbox:x:1000:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_ROOT_BYTES, _ROOT_FILES = 4 << 20, 4096


def build(spec: dict[str, Any], owner: int) -> None:
    """Build the root, in a mount namespace that is this process's own, and move into it.

    `owner` is the candidate's user id as seen from here. `spec` gives `disk` bytes, number of `files`, `binds`
    ({inside: outside}) and `masks`, directories to show empty. Raises OSError.
    """
    libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
    quiet = libc.MS_NOSUID | libc.MS_NODEV
    libc.mount("tmpfs", BASE, "tmpfs", quiet, f"size={_ROOT_BYTES},nr_inodes={_ROOT_FILES},mode=755")
    os.mkdir(BASE + OLD, 0o700)
    libc.pivot_root(BASE, BASE + OLD)
    os.chdir("/")
    _writable(spec["disk"], spec["files"], owner)
    _system()
    for inside, outside in spec["binds"].items():
        _bind(outside, inside)
    os.mkdir("/empty")
    for inside in spec["masks"]:
        libc.mount("/empty", inside, None, libc.MS_BIND)
        libc.seal_mount(inside, libc.ATTR_RDONLY, everything_below=False)
    os.mkdir("/proc")
    libc.mount("proc", "/proc", "proc", quiet | libc.MS_NOEXEC, "subset=pid,hidepid=invisible")
    os.mkdir(HIDDEN)
    libc.umount(OLD)
    os.rmdir(OLD)
    libc.seal_mount("/", libc.ATTR_RDONLY, everything_below=False)
    os.chdir(WRITABLE["work"])


def show_hidden(files: dict[str, bytes]) -> None:
    """Put the hidden files in place, for this process and its children only. Raises OSError."""
    libc.unshare(libc.NEWNS)
    size = sum(len(content) + 8192 for content in files.values()) + (1 << 20)
    libc.mount("tmpfs", HIDDEN, "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, f"size={size},mode=755")
    for name, content in files.items():
        path = os.path.join(HIDDEN, name)
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        _write(path, content, 0o555)
    libc.seal_mount(HIDDEN, libc.ATTR_RDONLY, everything_below=False)


def _writable(disk: int, files: int, owner: int) -> None:
    os.mkdir("/data")
    options = f"size={disk},nr_inodes={files + len(WRITABLE) + 1},mode=755"
    libc.mount("tmpfs", "/data", "tmpfs", libc.MS_NOSUID | libc.MS_NODEV, options)
    os.mkdir("/dev")
    for name, target in WRITABLE.items():
        os.mkdir(f"/data/{name}")
        os.chown(f"/data/{name}", owner, owner)
        os.chmod(f"/data/{name}", 0o700 if name == "work" else 0o1777)
        os.mkdir(target)
        libc.mount(f"/data/{name}", target, None, libc.MS_BIND)
    libc.umount("/data")
    os.rmdir("/data")


def _system() -> None:
    for path in _BOUND:
        if os.path.isdir(OLD + path):
            _bind(path, path)
    for name in _MERGED:
        if os.path.islink(f"{OLD}/{name}"):
            os.symlink(os.readlink(f"{OLD}/{name}"), f"/{name}")
        elif os.path.isdir(f"{OLD}/{name}"):
            _bind(f"/{name}", f"/{name}")
    for name in _DEVICES:
        _write(f"/dev/{name}", b"", 0o666)
        libc.mount(f"{OLD}/dev/{name}", f"/dev/{name}", None, libc.MS_BIND)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"/dev/{name}")
    os.makedirs("/etc", exist_ok=True)
    for path in _COPIED:
        if os.path.isfile(OLD + path):
            with open(OLD + path, "rb") as file:
                _write(path, file.read(), 0o644)
    for path, text in _WRITTEN.items():
        _write(path, text.encode(), 0o644)


def _bind(outside: str, inside: str) -> None:
    """Show a directory or file of the machine, read-only, its mounts included."""
    if stat.S_ISDIR(os.stat(OLD + outside).st_mode):
        os.makedirs(inside, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        _write(inside, b"", 0o444)
    libc.mount(OLD + outside, inside, None, libc.MS_BIND | libc.MS_REC)
    libc.seal_mount(inside, libc.ATTR_RDONLY | libc.ATTR_NOSUID | libc.ATTR_NODEV, everything_below=True)


def _write(path: str, content: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)
