"""Runs what a page says in this process: a start of its own would cost each command six seconds of importing."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from burnish.cli import main

_HEREDOC = re.compile(r"cat > (\S+) <<'(\w+)'")


def run_block(block: str, folder: Path) -> str:
    """Run a bash block in a folder: files by `cat > FILE <<'END'`, `burnish ...`, `python FILE.py`. Returns the output.

    Raises AssertionError for a command that fails, and for one that is none of these.
    """
    told = []
    lines = iter(block.replace("\\\n", " ").splitlines())
    for line in lines:
        if here := _HEREDOC.fullmatch(line):
            text = "".join(f"{inner}\n" for inner in iter(lambda: next(lines), here[2]))
            (folder / here[1]).write_text(text, encoding="utf-8")
        elif line.strip() and not line.startswith("#"):
            told.append(run_line(line, folder))
    return "".join(told)


def run_line(line: str, folder: Path, *, given: str = "") -> str:
    """Run one command line in a folder, with `given` on its input; its output, or "" where it goes to a file."""
    words = shlex.split(line, comments=True)
    while re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # how many threads it is given makes no difference here
        words = words[1:]
    place = words[words.index(">") + 1] if ">" in words else None
    program, *arguments = words[: words.index(">")] if place else words
    shown = io.StringIO()
    with inside(folder), contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown), _input(given):
        if program == "burnish":
            status = _burnish(arguments)
        elif program == "python" and len(arguments) == 1 and arguments[0].endswith(".py"):
            runpy.run_path(arguments[0], run_name="__main__")
            status = 0
        else:
            raise AssertionError(f"tests/docs/shell.py cannot run {line!r}")
    assert status == 0, f"{line}\nended with status {status}:\n{shown.getvalue()[-4000:]}"
    if place:
        (folder / place).write_text(shown.getvalue(), encoding="utf-8")
        return ""
    return shown.getvalue()


def _burnish(arguments: list[str]) -> int:
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """The folder is the current one, and its files can be imported; what was imported from it is forgotten after."""
    before, known = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        for name in set(sys.modules) - known:
            file = getattr(sys.modules[name], "__file__", None)
            if file and Path(file).is_relative_to(folder):
                del sys.modules[name]


@contextlib.contextmanager
def _input(text: str) -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before
