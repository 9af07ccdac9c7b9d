"""The run directory: what other programs may rely on finding there.

config.yaml (resolved), metrics.jsonl (one object a step), evaluations/*.json, traces/*.parquet, checkpoints/step-N/,
final/ (loads with transformers or peft), summary.json, report.html.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.traces import Group
from burnish.traces.files import atomic_write
from burnish.traces.store import write_groups


def fresh_directory(parent: Path, name: str) -> Path:
    """A new folder `name` in `parent`, or `name-2`, `name-3`, ... when it is taken; made here, so it stays ours."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 100_000):
            path = parent / (name if number == 1 else f"{name}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise InputError(f"no run directory can be made in {parent} ({error.strerror}); give one with --out") from None
    raise InputError(f"{parent} holds too many runs called {name}; give a run directory with --out")


class RunDirectory:
    """Claims an empty directory and writes a run's files. Raises InputError when it holds anything."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if (path / "metrics.jsonl").exists() or (path / "config.yaml").exists():
                raise InputError(f"{path} already holds a run: choose another --out, or move it away")
            if any(path.iterdir()):
                raise InputError(f"{path} is not empty: a run needs a directory of its own, choose another --out")
            (path / "config.yaml").touch(exist_ok=False)  # of two runs that start together one gets it
        except FileExistsError:
            raise InputError(f"{path} is taken by another run, or is a file: choose another --out") from None
        except OSError as error:
            raise InputError(f"the run directory {path} cannot be made: {error.strerror}") from None

    @classmethod
    def claim(cls, path: Path) -> tuple[RunDirectory, bool]:
        """The run directory at `path`, and whether it was made just now."""
        try:
            made = not path.exists()
        except OSError as error:
            raise InputError(f"the run directory {path} cannot be made: {error.strerror}") from None
        return cls(path), made

    def give_up(self, *, remove: bool) -> None:
        """Take back the claim when nothing was recorded; `remove` the directory itself when it was made for this."""
        records = [p for p in self.path.rglob("*") if p.is_file() and p.name != "config.yaml"]
        if records:
            return
        (self.path / "config.yaml").unlink(missing_ok=True)
        for folder in ("evaluations", "traces", "checkpoints"):
            if (self.path / folder).is_dir():
                (self.path / folder).rmdir()
        if remove:
            self.path.rmdir()

    def write_config(self, text: str) -> None:
        """The resolved recipe."""
        atomic_write(self.path / "config.yaml", text)

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl, on disk before this returns. A number that is not finite becomes null."""
        line = json.dumps({k: _finite(v) for k, v in record.items()}) + "\n"
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def write_traces(self, step: int, groups: Sequence[Group]) -> None:
        """The groups of one step."""
        (self.path / "traces").mkdir(exist_ok=True)
        write_groups(self.path / "traces" / f"step-{step:06d}.parquet", groups)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """summary.json."""
        text = json.dumps({k: _finite(v) for k, v in summary.items()}, indent=1, ensure_ascii=False)
        atomic_write(self.path / "summary.json", text + "\n")

    def evaluation(self, name: str) -> Path:
        """Where an evaluation of that name belongs."""
        (self.path / "evaluations").mkdir(exist_ok=True)
        return self.path / "evaluations" / f"{name}.json"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
