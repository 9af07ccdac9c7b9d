"""How long the command line takes to start: `python -m benchmarks.startup`.

Writes benchmarks/results/startup.json: for each command the wall seconds of a fresh process, median and range over
repeats taken in turns, so that a busy moment of the machine does not fall on one of them alone.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPEATS = 20
RESULT = Path(__file__).parent / "results" / "startup.json"

COMMAND = [sys.executable, "-m", "burnish.cli"]
COMPLETE = {
    "_BURNISH_COMPLETE": "complete_bash",
    "COMP_WORDS": "burnish train recipes/demo.yaml optimizer.sch",
    "COMP_CWORD": "3",
}
MEASURED: dict[str, tuple[list[str], dict[str, str]]] = {
    "python": ([sys.executable, "-c", "pass"], {}),
    "import burnish": ([sys.executable, "-c", "import burnish"], {}),
    "burnish --help": ([*COMMAND, "--help"], {}),
    "burnish train --help": ([*COMMAND, "train", "--help"], {}),
    "burnish methods": ([*COMMAND, "methods"], {}),
    "burnish config": ([*COMMAND, "config", "recipes/demo.yaml"], {}),
    "completion of a key": (COMMAND, COMPLETE),
}
LIMITS = {"import burnish": 0.3, "burnish --help": 0.5}
"""Seconds that are promised."""


def seconds(command: list[str], environment: dict[str, str]) -> float:
    """Wall seconds of one process, from its start to its end."""
    started = time.perf_counter()
    subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - started


def main() -> None:
    """Measure, print, save. Ends with status 1 where a promise is broken."""
    found: dict[str, list[float]] = {name: [] for name in MEASURED}
    for repeat in range(REPEATS + 1):
        for name, (command, environment) in MEASURED.items():
            taken = seconds(command, environment)
            if repeat:  # the first fills the caches of the file system and writes byte code
                found[name].append(taken)
    rows = {
        name: {"median": statistics.median(taken), "least": min(taken), "most": max(taken)}
        for name, taken in found.items()
    }
    for name, row in rows.items():
        print(f"{name:22} {row['median']:.3f} s ({row['least']:.3f} to {row['most']:.3f})")
    machine = {"cpus": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()}
    RESULT.write_text(json.dumps({"repeats": REPEATS, "machine": machine, "seconds": rows}, indent=1) + "\n")
    broken = [name for name, limit in LIMITS.items() if rows[name]["median"] > limit]
    sys.exit(f"too slow: {', '.join(broken)}" if broken else 0)


if __name__ == "__main__":
    main()
