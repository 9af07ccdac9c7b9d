"""How time and memory grow with the work: measured, fitted, and held against the arithmetic.

    OMP_NUM_THREADS=1 python -m benchmarks.growth [--only update-layers ...] [--repeat 5] [--out FOLDER]
    python -m benchmarks.growth --plot          # draws docs/images/growth-*.svg from what was measured

Time is the processor time of the process, on one thread, so that a busy machine disturbs it little. Memory is what
tensors hold at once on top of what was there before, told by torch's own allocator. An exponent is the slope of log
cost over log size in the upper half of the sizes; its interval is Student's over the repeats. docs/growth.md explains
the results.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.growth_work import AXES, Axis, Work

RESULTS = Path(__file__).parent / "results" / "growth"
SLACK = 0.1
"""An exponent whose interval lies above that of the arithmetic by more than this is called super-linear: beyond the
processor's caches the same operations take longer, which is no term of ours."""


def seconds(work: Work) -> float:
    """Processor time of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak_bytes(work: Callable[[], Any]) -> int:
    """Bytes of tensors that were alive at once on top of those before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as told:
        work()
    events = [e for e in told.profiler.kineto_results.events() if e.name() == "[memory]"]  # type: ignore[union-attr]
    events.sort(key=lambda event: event.start_ns())
    return int(np.cumsum([event.nbytes() for event in events]).max())


def measure(axis: Axis, repeat: int) -> dict[str, Any]:
    """Every size, `repeat` times in turns, so that a disturbance meets all of them alike."""
    works = [axis.make(size) for size in axis.sizes]
    flops = [work() for work in works]  # the first run sets things up
    times = [[seconds(work) for work in works] for _ in range(repeat)]
    peaks = [peak_bytes(work) for work in works]
    return {
        "job": axis.job, "axis": axis.name, "sizes": list(axis.sizes), "flops": flops, "peak_bytes": peaks,
        "seconds": [list(of_size) for of_size in zip(*times, strict=True)], "attention": axis.attention,
    }  # fmt: skip


def slope(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Slope of log cost over log size in the upper half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(costs[half:]), 1)[0])


def fitted(found: dict[str, Any]) -> dict[str, Any]:
    """The exponents of a measured axis, with a 95 % interval for time, and what follows from them.

    Raises ValueError for one repeat, which has no interval: nothing would be above any bound.
    """
    sizes, runs = found["sizes"], list(zip(*found["seconds"], strict=True))
    slopes = [slope(sizes, run) for run in runs]
    if len(slopes) < 2:
        raise ValueError("an interval needs two repeats at least")
    spread = statistics.stdev(slopes) / math.sqrt(len(slopes))
    center, margin = statistics.fmean(slopes), float(scipy.stats.t.ppf(0.975, len(slopes) - 1)) * spread
    arithmetic, memory = slope(sizes, found["flops"]), slope(sizes, found["peak_bytes"])
    bound = max(1.0, arithmetic) + SLACK
    return {
        "time": center, "interval": [center - margin, center + margin], "arithmetic": arithmetic, "memory": memory,
        "time_above": center - margin > bound, "memory_above": memory > 1.0 + SLACK,
    }  # fmt: skip


def line(name: str, fit: dict[str, Any]) -> str:
    """An axis in words."""
    low, high = fit["interval"]
    verdict = [what for what, above in (("time", fit["time_above"]), ("memory", fit["memory_above"])) if above]
    return (
        f"{name:26} time {fit['time']:5.2f} [{low:5.2f}, {high:5.2f}]  arithmetic {fit['arithmetic']:5.2f}  "
        f"memory {fit['memory']:5.2f}  {'SUPER-LINEAR: ' + ', '.join(verdict) if verdict else 'ok'}"
    )


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """What was measured, by the title of its axis, in the order of the axes."""
    files = {axis.title: folder / f"{axis.title}.json" for axis in AXES}
    return {title: json.loads(file.read_text(encoding="utf-8")) for title, file in files.items() if file.is_file()}


def main() -> None:
    """Measure, or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[axis.title for axis in AXES], default=None)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--plot", action="store_true", help="draw what was measured, and measure nothing")
    args = parser.parse_args()
    if args.repeat < 2:
        parser.error("--repeat: an interval needs two at least")
    if args.plot:
        from benchmarks.growth_plot import draw

        return draw(read(args.out), Path("docs/images"))
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    for axis in AXES:
        if args.only is None or axis.title in args.only:
            found = measure(axis, args.repeat)
            found |= {"fit": fitted(found), "torch": torch.__version__, "command": "python -m benchmarks.growth"}
            (args.out / f"{axis.title}.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
            print(line(axis.title, found["fit"]), flush=True)
    return None


if __name__ == "__main__":
    main()
