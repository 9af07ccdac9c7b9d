"""Run a command as an ordinary user: `python ordinary.py PATHS COMMAND...`, started by root.

Python often lies in root's own home, where an ordinary user cannot go. So in a mount namespace of this process's own
the closed directories on the way to PATHS (separated by colons) are covered by open ones that hold nothing but PATHS.
"""

from __future__ import annotations

import os
import sys

from burnish.environments.sandbox.inside import libc

NOBODY = 65534


def main(paths: list[str], command: list[str]) -> None:
    """Open the way, become nobody, run the command."""
    libc.unshare(libc.NEWNS)
    libc.mount("none", "/", None, libc.MS_REC | libc.MS_PRIVATE)
    for path in paths:
        closed = _closed(path)
        if closed is None:
            continue
        kept = os.open(path, os.O_PATH)
        libc.mount("tmpfs", closed, "tmpfs", 0, "mode=755")
        os.makedirs(path)
        libc.mount(f"/proc/self/fd/{kept}", path, None, libc.MS_BIND | libc.MS_REC)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execvp(command[0], command)


def _closed(path: str) -> str | None:
    parts = path.strip("/").split("/")
    folders = ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
    return next((folder for folder in folders if not os.stat(folder).st_mode & 0o001), None)


if __name__ == "__main__":
    main(sys.argv[1].split(":"), sys.argv[2:])
