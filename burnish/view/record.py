"""What a run directory holds, read for a report; every part may be absent."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from burnish.errors import InputError
from burnish.studies import Evaluation
from burnish.view.curves import is_number


@dataclass(frozen=True)
class RunRecord:
    """A run as its directory tells it. `metrics` has one record a step, in order, the latest where a step repeats."""

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    config_text: str = ""
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)

    def series(self, key: str) -> list[tuple[float, float]]:
        """(step, value) of a metric; NaN where a value is null, steps without the key left out."""
        return [
            (float(record["step"]), math.nan if record[key] is None else float(record[key]))
            for record in self.metrics
            if key in record and (record[key] is None or is_number(record[key]))
        ]

    def metric_names(self) -> list[str]:
        """Names of the numeric metrics, in order of first appearance."""
        found = {key: None for record in self.metrics for key, value in record.items() if is_number(value)}
        return [key for key in found if key != "step"]

    def before_and_after(self) -> tuple[Evaluation, Evaluation] | None:
        """The first and last evaluation by weight version, on the largest set of items evaluated more than once."""
        by_items: dict[frozenset[tuple[str, int]], list[Evaluation]] = {}
        for evaluation in self.evaluations:
            by_items.setdefault(frozenset((i.task, i.sample) for i in evaluation.items), []).append(evaluation)
        repeated = {items: found for items, found in by_items.items() if len(found) > 1}
        if not repeated:
            return None
        found = sorted(repeated[max(repeated, key=len)], key=lambda evaluation: evaluation.version)
        return found[0], found[-1]


def read_run(path: Path, *, metrics: bool = True) -> RunRecord:
    """A run as it stands, without `metrics` where they are read elsewhere.

    Raises InputError when there is no such directory, it is not a run's, or a file in it is broken.
    """
    if not path.is_dir():
        raise InputError(f"{path}: no such run directory; give the --out of a run")
    config, lines = path / "config.yaml", path / "metrics.jsonl"
    if not config.is_file() and not lines.is_file():
        raise InputError(f"{path}: not a run directory, it has neither config.yaml nor metrics.jsonl")
    text = _text(config) if config.is_file() else ""
    evaluations = [Evaluation.load(file) for file in sorted(path.glob("evaluations/[!.]*.json"))]
    return RunRecord(
        path=path,
        config=_read_config(config, text),
        config_text=text,
        metrics=_read_metrics(lines) if metrics and lines.is_file() else [],
        evaluations=sorted(evaluations, key=lambda evaluation: evaluation.version),
        summary=_read_summary(path / "summary.json"),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not text, so it is damaged ({error})") from None


def _read_config(path: Path, text: str) -> dict[str, Any]:
    try:
        config = yaml.safe_load(text) if text else {}
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not YAML ({error})") from None
    if not isinstance(config, dict):
        raise InputError(f"{path}: a configuration is a mapping of keys to values")
    return config


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    steps: dict[float, dict[str, Any]] = {}
    lines = _text(path).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            steps[float(record["step"])] = record
        except (ValueError, TypeError, KeyError) as error:
            if number == len(lines):
                break  # a run that is writing, or was killed while it wrote
            raise InputError(f"{path}, line {number}: not a record with a step ({error!r})") from None
    return [steps[step] for step in sorted(steps)]


def _read_summary(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON ({error})") from None
    return summary if isinstance(summary, dict) else {"summary": summary}
