"""The command line: a thin shell over functions that a notebook can call as well.

Exit status: 0 success, 1 a run or check that failed, 2 wrong usage or input, 130 interrupted. Nothing here imports
torch before a command needs it.
"""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated, NoReturn

import typer

from burnish.cli import audits, bench, data, environments, knowledge, models, nursery, pages, pipelines, runs, study
from burnish.cli.app import app, printable
from burnish.errors import BurnishError, notes_told
from burnish.running.output import results_apart

__all__ = [
    "app", "audits", "bench", "data", "environments", "knowledge", "main", "models", "nursery", "pages", "pipelines",
    "runs", "study",
]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Burnish's own errors become one paragraph; others keep their traceback."""
    # an ordinary end instead of the system's, so that what is being written aside is taken away
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with notes_told(_note), results_apart() if "--json" in words else nullcontext():
            app(args=words, prog_name="burnish")
    except OSError as error:
        advice = _REFUSALS.get(error.errno or 0, "the file system refused; is the disk full?")
        _end(f"{error}: {advice}", 2 if error.errno == errno.ENAMETOOLONG else 1)
    except MemoryError as error:
        _end(f"out of memory ({error or 'no more to be had'}): ask for less at a time", 1)
    except BurnishError as error:
        _end(str(error), error.exit_status)
    except KeyboardInterrupt:
        print("burnish: interrupted", file=sys.stderr)
        sys.exit(130)


_REFUSALS = {
    errno.ENAMETOOLONG: "give a shorter path",
    errno.EACCES: "this user may not do that; choose another place, or change its permissions",
    errno.EPERM: "this user may not do that; choose another place, or change its permissions",
    errno.EROFS: "nothing can be written there; choose another place",
    errno.ENOTDIR: "a part of the path is a file; choose another place",
    errno.EISDIR: "that is a folder; give a file",
    errno.ENOENT: "there is no such place",
}
"""What to do about errors of the file system that no part of the program has explained."""


def _end(text: str, status: int) -> NoReturn:
    if sys.stdout is not None:  # closed, as in `burnish ... >&-`
        sys.stdout.flush()
    print(f"burnish: {printable(text)}", file=sys.stderr)
    sys.exit(status)


def _note(text: str) -> None:
    print(f"burnish: note: {printable(text)}", file=sys.stderr)


def _version(asked: bool) -> None:
    if asked:
        import burnish

        print(burnish.__version__)
        raise typer.Exit()


@app.callback()
def _burnish(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """Post-training of language models in one small grammar."""
