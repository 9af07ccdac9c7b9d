"""Results of benchmarks that nobody measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from burnish.studies.bench.results import BenchResult, result
from burnish.studies.bench.spec import benchmark

MACHINE = {"processor": "abacus", "cores": 2, "memory_gb": 8, "system": "none", "load_before": 0.0}


def made_up(name: str, rounds: Sequence[Mapping[str, float]] = ({"ours": 2.0},), **more: Any) -> BenchResult:
    """A result of benchmark `name` with these values of each side in each round."""
    about = {"work": "some work", "machine": MACHINE, "absent": {}, "versions": {"python": "3"}}
    peaks = dict.fromkeys(rounds[0], 1_000_000_000)
    return result(benchmark(name), rounds, peaks=peaks, **{**about, **more})
