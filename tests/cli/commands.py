"""The commands as they are declared, and a process of the command line, for the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import typer

from burnish.cli import app

ROOT = Path(__file__).parents[2]


def commands(group: Any = None, before: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its words ("data check"), groups themselves left out."""
    group = group or typer.main.get_command(app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*before, name))
        else:
            yield " ".join((*before, name)), command


def burnish(
    *arguments: str, cwd: Path | None = None, environment: Mapping[str, str] | None = None, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """The command line of this checkout in a process of its own."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "burnish.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **(environment or {})},
        timeout=seconds,
    )
