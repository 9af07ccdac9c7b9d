"""Thousands of sandboxed executions: how long a sandbox takes to start, how many a second, whether anything is left.

    OMP_NUM_THREADS=1 python -m benchmarks.sandbox [--count 2000] [--at-once 2]
        [--out benchmarks/results/sandbox.json]

Each execution has a sandbox of its own. Most run a Python program that reads its input and prints; every tenth leaves
processes running, every twentieth is given up in the middle. What there is before and after (processes, descriptors of
this process and of the helper, mounts, control groups) must be the same: the exit status is 1 where it is not. Starts
are measured one after the other, before: from asking for a sandbox until /bin/true has run in it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from burnish.environments.sandbox import NamespaceProvider, SandboxSpec, run_python

SPEC = SandboxSpec.model_validate({"memory": "64MiB", "disk": "4MiB", "cpu_seconds": 2.0, "wall_seconds": 60.0})
PROGRAM = "import sys\nprint(sum(int(line) for line in sys.stdin))\n"


def helpers(provider: NamespaceProvider) -> list[psutil.Process]:
    """The helper's processes and all that descend from them."""
    first = psutil.Process(provider.helper.pid)
    return [first, *first.children(recursive=True)]


async def inventory(provider: NamespaceProvider) -> dict[str, Any]:
    """What there is, once no sandbox is left: waits until the helper has no child but its own second process."""
    while len(found := helpers(provider)) > 2:
        await asyncio.sleep(0.01)
    return {
        "processes": sorted(process.pid for process in found),
        "descriptors": psutil.Process().num_fds(),
        "descriptors of the helper": [process.num_fds() for process in found],
        "mounts": len(Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()),
        "mounts of the helper": len(Path(f"/proc/{found[-1].pid}/mountinfo").read_text(encoding="utf-8").splitlines()),
        "temporary files": len([name for name in os.listdir("/tmp") if name.startswith("burnish")]),
        "control groups": len([path for path in Path("/sys/fs/cgroup").rglob("burnish-*") if path.is_dir()]),
    }


async def execute(provider: NamespaceProvider, number: int) -> None:
    """One execution in a sandbox of its own, of the kind that `number` says."""
    if number % 20 == 19:
        async with await provider.create(SPEC) as sandbox:
            given_up = asyncio.ensure_future(sandbox.exec(["/bin/sh", "-c", "sleep 30 & sleep 30"]))
            await asyncio.sleep(0.02)
            given_up.cancel()
            await asyncio.wait([given_up])
        return
    if number % 10 == 9:
        command = ["/bin/sh", "-c", "sleep 30 & setsid sleep 30 & echo 6"]
    else:
        command = ["python3", "-S", "add.py"]
    result = await run_python({"add.py": PROGRAM}, command, SPEC, stdin="1\n2\n3\n", provider=provider)
    if result.stdout.text != "6\n":
        raise RuntimeError(f"execution {number}: {result}")


async def starts(provider: NamespaceProvider, count: int) -> list[float]:
    """Seconds from asking for a sandbox until /bin/true has run in it, one after the other."""
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        async with await provider.create(SPEC) as sandbox:
            await sandbox.exec(["/bin/true"])
            seconds.append(time.perf_counter() - start)
    return seconds


async def measure(count: int, at_once: int) -> dict[str, Any]:
    """All figures."""
    used = sum(os.times()[:4])
    async with NamespaceProvider() as provider:
        await execute(provider, 0)
        before = await inventory(provider)
        load = os.getloadavg()[0]
        seconds = sorted(await starts(provider, max(count // 10, 1)))
        slots = asyncio.Semaphore(at_once)

        async def one(number: int) -> None:
            async with slots:
                await execute(provider, number)

        start = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(count)))
        took = time.perf_counter() - start
        after = await inventory(provider)
    used = sum(os.times()[:4]) - used  # the helper's included, now that it has ended
    return {
        "executions": count,
        "at once": at_once,
        "executions per second": count / took,
        "processor ms per sandbox": 1000 * used / (count + len(seconds) + 1),
        "starts": len(seconds),
        "start median ms": 1000 * statistics.median(seconds),
        "start p95 ms": 1000 * seconds[int(0.95 * len(seconds))],
        "start fastest ms": 1000 * seconds[0],
        "left behind": {key: [before[key], after[key]] for key in before if before[key] != after[key]},
        "looked at": list(before),
        "processors": os.cpu_count(),
        "load before": load,
        "kernel": platform.release(),
        "user": os.geteuid(),
        "python": platform.python_version(),
    }


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    figures = asyncio.run(measure(arguments.count, arguments.at_once))
    text = json.dumps(figures, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    sys.exit(1 if figures["left behind"] else 0)


if __name__ == "__main__":
    main()
