"""Where the time of our side of a benchmark goes, by operation, from torch's profiler.

    OMP_NUM_THREADS=2 python -m benchmarks.profile grpo-short [--small] [--threads 2] [--prompts N] [--rows 15]

The work is done once to warm up and once under the profiler, which slows small operations down: read shares, not
seconds. With --save the table is kept in benchmarks/results/bench/profile-NAME.json, which docs/performance.md shows.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.studies.bench import jobs
from burnish.studies.bench.children import started
from burnish.studies.bench.measure import cores
from burnish.studies.bench.results import FOLDER
from burnish.studies.bench.spec import Work, benchmark
from burnish.traces.files import atomic_write

_KINDS = {
    "matrix products": ("mm", "addmm", "bmm", "baddbmm", "linear", "matmul"),
    "attention": ("scaled_dot_product", "flash_attention", "softmax"),
    "optimizer": ("optimizer", "_foreach", "fused_adam", "addcmul", "addcdiv", "lerp"),
    "copies and layout": (
        "copy",
        "cat",
        "stack",
        "index",
        "gather",
        "scatter",
        "contiguous",
        "clone",
        "repeat",
        "fill",
    ),
    "sums and norms": ("logsumexp", "sum", "mean", "norm", "rsqrt", "cumsum", "pow"),
}
"""Kind of operation -> parts of the names that are of it; the first that fits counts."""


def kind_of(operation: str) -> str:
    """The kind of an operation by its name."""
    name = operation.rsplit("::", 1)[-1].lower()
    return next((kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "everything else")


def profiled(work: Work, threads: int) -> dict[str, Any]:
    """Of each operation its own seconds and calls, the largest first."""
    with tempfile.TemporaryDirectory(prefix="burnish-bench-") as name:
        folder = Path(name)
        facts = jobs.prepare(folder, work)
        table = folder / "profile.json"
        job = jobs.ours(folder, work, facts, threads, profile=table)
        with started([job], folder) as children:
            children["ours"].go()
            children["ours"].go()
        return {"work": str(work), "threads": threads, "operations": json.loads(table.read_text("utf-8"))}


def main() -> None:
    """Profile and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--save", action="store_true")
    for option, default in (("threads", cores()), ("prompts", None), ("rows", 15)):
        parser.add_argument(f"--{option}", type=int, default=default)
    args = parser.parse_args()
    work = benchmark(args.name).of_size(args.small)
    if args.prompts:
        work = replace(work, prompts=args.prompts)
    found = profiled(work, args.threads)
    kinds: dict[str, float] = {}
    for row in found["operations"]:
        kinds[kind_of(row["operation"])] = kinds.get(kind_of(row["operation"]), 0.0) + row["seconds"]
    total = sum(kinds.values())
    found["shares"] = {kind: seconds / total for kind, seconds in sorted(kinds.items(), key=lambda item: -item[1])}
    print(f"{args.name}: {found['work']}, {total:.2f} s in operations")
    for kind, share in found["shares"].items():
        print(f"  {share:6.1%}  {kind}")
    for row in found["operations"][: args.rows]:
        print(f"  {row['seconds']:8.3f} s {row['calls']:7d} x  {row['operation']}")
    if args.save:
        found["operations"] = found["operations"][: args.rows]
        atomic_write(FOLDER / f"profile-{args.name}.json", json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
