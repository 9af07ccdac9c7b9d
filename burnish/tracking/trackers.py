"""What a run calls: the trackers of its recipe, each kept away from the run so that none can stop or slow it."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from burnish.errors import InputError
from burnish.tracking.aside import Aside
from burnish.tracking.spec import TrackerSpec


def check(specs: Sequence[TrackerSpec]) -> None:
    """Raise InputError when a tracker's package is not installed, or two are of one kind. Imports none of them."""
    for place, spec in enumerate(specs):
        if spec.kind in [other.kind for other in specs[:place]]:
            raise InputError(f"trackers: {spec.kind} is there twice; give one of each kind")
        found = importlib.util.find_spec(spec.kind)
        if found is None or found.origin is None:  # without an origin it is some folder of that name
            fix = 'pip install "burnish[trackers]"'
            raise InputError(f"trackers: {spec.kind} is not installed: `{fix}`, or remove it from trackers")


def numbers(record: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a record that are finite, without its step."""
    return {
        key: float(value)
        for key, value in record.items()
        if key != "step" and isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    }


class Trackers:
    """The trackers of one run. A tracker that fails is told of once through `tell`, and the run goes on without it.

    As a context manager it says to the trackers that the run failed when the block raises.
    """

    def __init__(self, specs: Sequence[TrackerSpec], tell: Callable[[str], None], *, patience: float = 30.0) -> None:
        check(specs)
        self._tell = tell
        self._trackers = [Aside(spec, patience=patience) for spec in specs]
        self._finished = False

    def start(self, name: str, config: Mapping[str, Any], directory: Path, *, resume_step: int = 0) -> None:
        """Begin or continue; `name` and `config` are the run's, files go into `directory`.

        `resume_step` is the number of steps that are done already.
        """
        for tracker in self._trackers:
            tracker.start(name, config, directory, resume_step)

    def log(self, step: int, record: Mapping[str, Any]) -> None:
        """Hand over the finite numbers of a step's record, `timing/` included. Never waits."""
        shown = numbers(record)
        for tracker in self._trackers:
            tracker.log(step, shown)
        self._pass_on()

    def finish(self, summary: Mapping[str, Any], *, failed: bool = False) -> None:
        """Say that the run is over and let the trackers store the rest; waits `patience` seconds at most, in all."""
        if self._finished:
            return
        self._finished = True
        for tracker in self._trackers:
            tracker.end(summary, failed)
        for tracker in self._trackers:
            tracker.wait()
        self._pass_on()

    def _pass_on(self) -> None:
        for tracker in self._trackers:
            for line in tracker.news():
                self._tell(f"tracker {tracker.kind}: {line}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish({}, failed=error is not None)
