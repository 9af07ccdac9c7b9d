"""A `burnish train` process that is killed at a chosen event of its own; two run directories compared bit by bit.

It is a fork of a process that has imported what it needs, or with `fresh` an interpreter of its own, with other hashes
of texts: a run is the same in both.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.running.checkpoints import numbered_checkpoints
from tests.forked import Forked

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}


@dataclass(frozen=True)
class Moment:
    """A phase event of a run: how many steps were done then, the phase, and how much of it."""

    steps: int
    phase: str
    done: int
    total: int


class Life:
    """One process of a run, told what it does by its own JSON events."""

    def __init__(self, recipe: Path, out: Path, *options: str, fresh: bool = False) -> None:
        found = numbered_checkpoints(out / "checkpoints")
        self._steps = found[-1][0] if found else 0
        self.messages: list[str] = []
        words = ["train", str(recipe), "--out", str(out), "--json", *options]
        self.process: Forked | subprocess.Popen[str] = (
            subprocess.Popen(
                [sys.executable, "-m", "burnish.cli", *words],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=recipe.parent,
            )
            if fresh
            else Forked(words, cwd=recipe.parent, environment=ENVIRONMENT)
        )  # fmt: skip

    def moments(self) -> Iterator[Moment]:
        """The phase events, as they happen."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "step":
                self._steps = event["step"]
            elif event["event"] == "message":
                self.messages.append(event["text"])
                if event["text"].startswith("resumed after step "):
                    self._steps = int(event["text"].split()[3].rstrip(";"))
            elif event["event"] == "phase":
                yield Moment(self._steps, event["name"], event["done"], event["total"])

    def kill_at(self, moment: Moment, delay: float = 0.0) -> bool:
        """SIGKILL when the moment comes, `delay` seconds later; False when the process ended before."""
        for now in self.moments():
            if now == moment:
                time.sleep(delay)
                self.process.send_signal(signal.SIGKILL)
                self.process.wait()
                return True
        return False

    def finish(self) -> list[Moment]:
        """Let it run to its end, which must be a good one; everything it did."""
        moments = list(self.moments())
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        assert self.process.wait() == 0, errors[-3000:]
        return moments


def evidence(run: Path) -> dict[str, Any]:
    """Everything of a run that must not depend on whether it was killed: files by name, as bytes or without times."""
    found: dict[str, Any] = {}
    for path in sorted(run.rglob("*")):
        name = str(path.relative_to(run))
        if not path.is_file() or name.split("/")[0] in ("discarded", ".lock", "run.json", "journal.jsonl"):
            continue
        if name in ("report.html", "heartbeat.json", "stacks-frozen.txt") or path.name == "manifest.json":
            continue  # they hold times, process numbers, the run's own id
        if path.suffix == ".json" and path.name in ("parts.json", "summary.json"):
            found[name] = _without_times(json.loads(path.read_text("utf-8")))
        elif name == "metrics.jsonl":
            found[name] = [_without_times(json.loads(line)) for line in path.read_text("utf-8").splitlines()]
        else:
            found[name] = path.read_bytes()
    return found


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if not k.startswith("timing/") and k != "seconds"}
    return [_without_times(v) for v in value] if isinstance(value, list) else value


def assert_same(one: Path, other: Path) -> None:
    """Both runs left the same evidence; the first difference is named."""
    a, b = evidence(one), evidence(other)
    unlike = sorted(a.keys() ^ b.keys()) or [name for name in a if a[name] != b[name]]
    if unlike:  # a helper's assert is not explained by pytest
        raise AssertionError(f"{one.name} and {other.name} differ in {unlike}")
