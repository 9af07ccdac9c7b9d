"""How a side of a benchmark talks with what measures it: JSON lines. The standard library only.

A side runs as a script of its own, in whatever environment has what it needs; a peer's never imports Burnish. It says
that it is ready, does its work once each time it is told `go`, and says what that took.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn


class Channel:
    """The side's end: orders come in on the standard input, reports go out on what was the standard output."""

    def __init__(self) -> None:
        self._reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # whatever libraries print goes to the error output
        self._told = 0.0

    @staticmethod
    def job() -> dict[str, Any]:
        """What to do, from the JSON file that the command line names."""
        return json.loads(Path(sys.argv[1]).read_text("utf-8"))

    def ready(self, **about: Any) -> None:
        """Set up: wait for the first `go`."""
        self._report({"event": "ready", **about})
        self._wait()

    def done(self, seconds: float | None = None, **figures: Any) -> None:
        """One piece of work is done, `seconds` after it was asked for unless said otherwise: wait for the next."""
        taken = time.perf_counter() - self._told if seconds is None else seconds
        self._report({"event": "done", "seconds": taken, "peak_memory": peak_memory(), **figures})
        self._wait()

    def serve(self, work: Callable[[int], dict[str, Any]], **about: Any) -> NoReturn:
        """Be ready, and do `work(number)` each time it is asked for; it returns figures to report beside the time."""
        self.ready(**about)
        number = 0
        while True:
            figures = work(number)
            number += 1
            self.done(**figures)

    def tell(self, **figures: Any) -> None:
        """The figures of a side that runs once by itself and then ends."""
        self._report({"event": "told", "peak_memory": peak_memory(), **figures})

    def _report(self, values: dict[str, Any]) -> None:
        self._reports.write(json.dumps(values) + "\n")
        self._reports.flush()

    def _wait(self) -> None:
        if sys.stdin.readline().strip() != "go":
            os._exit(0)  # nothing is left to save, and unwinding a training run would save a model
        self._told = time.perf_counter()


def peak_memory() -> int:
    """Bytes of the most memory this process has held so far.

    getrusage is not asked on Linux: what it says of a process also covers the one that started it.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # there is none on Windows

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
