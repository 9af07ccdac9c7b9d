"""What every tracker does, whatever program it feeds."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from burnish.traces.files import atomic_write


class Tracker(Protocol):
    """One program that shows metrics. It may raise anything; whoever calls it says so once and goes on without it."""

    def start(self, name: str, config: Mapping[str, Any], directory: Path, resume_step: int) -> str:
        """Begin, or continue what `directory` holds of this run; returns where to look, for a person.

        `resume_step` steps are done already (0 for a new run): what was told of later ones is superseded.
        """
        ...

    def log(self, step: int, numbers: Mapping[str, float]) -> None:
        """The finite numbers of step `step`, counted from 1; 0 is before the first."""
        ...

    def finish(self, summary: Mapping[str, Any], failed: bool) -> None:
        """The run is over, or has failed; everything told is stored when this returns."""
        ...


class Continued:
    """A file by which a resumed run continues the run it began: its name there, and the last step that was told.

    trackio and wandb cannot take a step back: of the steps that a resumed run repeats they keep what they have.
    """

    def __init__(self, file: Path, **first: Any) -> None:
        self.file = file
        self.values: dict[str, Any] = json.loads(file.read_text("utf-8")) if file.is_file() else first
        self.last_step = int(self.values.get("last_step", -1))
        self._save()

    def is_new(self, step: int) -> bool:
        """Whether a step is told for the first time; from then on it is not."""
        if step <= self.last_step:
            return False
        self.last_step = step
        self._save()
        return True

    def _save(self) -> None:
        atomic_write(self.file, json.dumps({**self.values, "last_step": self.last_step}, indent=1) + "\n")


def shown(place: Path) -> str:
    """A path as a person would type it: relative where it lies below the current folder."""
    relative = os.path.relpath(place)
    return str(place) if relative.startswith("..") else relative
