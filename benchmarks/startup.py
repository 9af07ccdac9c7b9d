"""How long the command line takes to start: `python -m benchmarks.startup`, on a machine that does nothing else.

Writes benchmarks/results/startup.json: for each command the wall and processor seconds of a fresh process, median and
range over repeats taken in turns, so that a busy moment of the machine does not fall on one of them alone.
"""

from __future__ import annotations

import json
import os
import platform
import resource
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
"""Wall seconds that are promised."""


def seconds(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Wall and processor seconds of one process, from its start to its end."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure, print, save. Ends with status 1 where a promise is broken, 2 where the machine is busy."""
    cpus, load = os.cpu_count() or 1, os.getloadavg()[0]
    if load > 0.5 * cpus and "--busy" not in sys.argv:
        print(
            f"the machine is busy (load {load:.1f}): wait, or give --busy and read the processor seconds",
            file=sys.stderr,
        )
        sys.exit(2)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MEASURED}
    for repeat in range(REPEATS + 1):
        for name, (command, environment) in MEASURED.items():
            taken = seconds(command, environment)
            if repeat:  # the first fills the caches of the file system and writes byte code
                found[name].append(taken)
    rows = {}
    for name, taken in found.items():
        walls = [wall for wall, _ in taken]
        middle, processor = statistics.median(walls), statistics.median(used for _, used in taken)
        rows[name] = {"median": middle, "least": min(walls), "most": max(walls), "processor": processor}
        print(f"{name:22} {middle:.3f} s ({min(walls):.3f} to {max(walls):.3f}), processor {processor:.3f} s")
    machine = {
        "cpus": cpus, "machine": platform.machine(), "python": platform.python_version(), "load_before": round(load, 2),
    }  # fmt: skip
    RESULT.write_text(json.dumps({"repeats": REPEATS, "machine": machine, "seconds": rows}, indent=1) + "\n")
    broken = [name for name, limit in LIMITS.items() if rows[name]["median"] > limit]
    sys.exit(f"too slow: {', '.join(broken)}" if broken else 0)


if __name__ == "__main__":
    main()
