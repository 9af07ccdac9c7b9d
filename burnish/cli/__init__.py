"""The command line: a thin shell over functions that a notebook can call as well.

Exit status: 0 success, 1 a run or check that failed, 2 wrong usage or input, 130 interrupted. Nothing here imports
torch before a command needs it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from burnish.cli import knowledge, models, runs
from burnish.cli.app import app, printable
from burnish.errors import BurnishError

__all__ = ["app", "knowledge", "main", "models", "runs"]

_ORDER = ("train", "eval", "sample", "chat", "show", "report", "check", "export", "config", "methods", "explain")
app.registered_commands.sort(
    key=lambda command: _ORDER.index(command.name or getattr(command.callback, "__name__", ""))
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit. Burnish's own errors become one paragraph; others keep their traceback."""
    # transformers would draw a bar for every load; HF_HUB_DISABLE_PROGRESS_BARS=0 brings it back, for large downloads
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        app(args=None if arguments is None else list(arguments), prog_name="burnish")
    except OSError as error:
        sys.stdout.flush()
        print(f"burnish: {printable(str(error))}: the file system refused; is the disk full?", file=sys.stderr)
        sys.exit(1)
    except BurnishError as error:
        sys.stdout.flush()
        print(f"burnish: {printable(str(error))}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("burnish: interrupted", file=sys.stderr)
        sys.exit(130)


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
