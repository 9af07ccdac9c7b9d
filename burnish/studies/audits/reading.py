"""A run directory as the audits read it: its records, and its stored traces one step at a time. No torch here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from burnish.errors import InputError
from burnish.running.journal import Journal
from burnish.traces import Group
from burnish.traces.store import read_groups

MOST_STORED = 200
"""Stored steps that are read; of more, that many evenly spread, the first and the last among them."""

_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class RunFiles:
    """What of a run is read at once. `metrics` has one record a step, in order, the latest where a step repeats."""

    path: Path
    config: dict[str, Any]
    metrics: list[dict[str, Any]]
    stored: list[tuple[int, Path]]
    """(step, file) of the traces that are read."""
    stored_in_all: int
    events: list[dict[str, Any]] = field(default_factory=list)
    redone: list[dict[str, Any]] = field(default_factory=list)
    """Records of discarded/: steps that a resume took anew."""

    def series(self, key: str) -> list[tuple[int, float]]:
        """(step, value) of a numeric metric, steps without it left out."""
        found = [(int(r["step"]), r.get(key)) for r in self.metrics]
        return [(step, float(v)) for step, v in found if isinstance(v, (int, float)) and not isinstance(v, bool)]

    def groups(self) -> Iterator[tuple[int, list[Group]]]:
        """(step, its groups) of what is stored. Raises InputError for a file that is damaged."""
        for step, path in self.stored:
            yield step, read_groups(path)

    def told(self, *keys: str) -> Any:
        """A value of the recipe, by its keys; None where it has none."""
        value: Any = self.config
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value


def read_run_files(path: str | Path) -> RunFiles:
    """Read a run's records.

    Raises InputError when there is no such directory, it is not a run's, or a line of its metrics is none (the last
    line apart, which a run may be writing).
    """
    run = Path(path)
    if not run.is_dir():
        raise InputError(f"{run}: no such run directory; give the --out of a run")
    if not (run / "config.yaml").is_file() and not (run / "metrics.jsonl").is_file():
        raise InputError(f"{run}: not a run directory, it has neither config.yaml nor metrics.jsonl")
    files = [(int(m[1]), file) for file in run.glob("traces/*.parquet") if (m := _STEP.fullmatch(file.stem))]
    files.sort()
    redone = [record for file in sorted(run.glob("discarded/*/metrics.jsonl")) for record in read_metrics(file)]
    return RunFiles(
        path=run,
        config=_config(run / "config.yaml"),
        metrics=read_metrics(run / "metrics.jsonl"),
        stored=_spread(files, MOST_STORED),
        stored_in_all=len(files),
        events=list(Journal(run / "journal.jsonl").events()),
        redone=redone,
    )


def _spread(files: list[tuple[int, Path]], most: int) -> list[tuple[int, Path]]:
    if len(files) <= most:
        return files
    return [files[round(i * (len(files) - 1) / (most - 1))] for i in range(most)]


def _config(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"{path}: not YAML, so it is damaged ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: a configuration is a mapping of keys to values")
    return found


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics.jsonl. Raises InputError naming the line that is none."""
    if not path.is_file():
        return []
    steps: dict[int, dict[str, Any]] = {}
    lines = path.read_bytes().splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            steps[int(record["step"])] = record
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if number == len(lines) and not line.endswith(b"\n"):
                break  # a run that is writing, or was killed while it wrote
            raise InputError(
                f"{path}, line {number}: not a record with a step ({error!r}); the file is damaged. Restore it, or "
                "remove that line to audit the other steps"
            ) from None
    return [steps[step] for step in sorted(steps)]
