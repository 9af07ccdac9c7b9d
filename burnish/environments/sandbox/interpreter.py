"""Which directories a sandbox shows so that `python3` is the Python that Burnish runs under."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from glob import glob


@dataclass(frozen=True)
class Interpreter:
    """`binds` {inside: outside} are shown read-only, `masks` look empty, `path` is the PATH."""

    binds: dict[str, str]
    masks: list[str]
    path: str


def interpreter(packages: bool) -> Interpreter:
    """The running Python: its program and standard library, and with `packages` what is installed for it.

    Without `packages` the directories of installed packages look empty, those of the system's Python too.
    """
    base = [os.path.abspath(sys.base_prefix), os.path.realpath(sys.base_prefix)]
    here = [os.path.abspath(sys.prefix)] if packages else []
    roots = list(dict.fromkeys([*here, *base]))
    binds = {root: os.path.realpath(root) for root in roots if root != "/usr" and not root.startswith("/usr/")}
    path = ":".join(dict.fromkeys([*(f"{root}/bin" for root in roots), "/usr/local/bin", "/usr/bin", "/bin"]))
    return Interpreter(binds, [] if packages else _installed({*base, "/usr", "/usr/local"}), path)


def _installed(roots: set[str]) -> list[str]:
    found = {
        path for root in roots for kind in ("site", "dist") for path in glob(f"{root}/lib/python3*/{kind}-packages")
    }
    return sorted(path for path in found if os.path.isdir(path))
