"""The benchmarks there are, as a table. No torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from burnish.studies.bench.spec import BENCHMARKS, Benchmark


@dataclass(frozen=True, repr=False)
class Listing:
    """Benchmarks in order of importance; reads as text."""

    benchmarks: tuple[Benchmark, ...]

    def to_json(self) -> list[dict[str, Any]]:
        """One object for each."""
        return [
            {
                "name": b.name, "about": b.about, "unit": b.unit, "work": str(b.work), "peers": list(b.peers),
                "targets": "; ".join(map(str, b.targets)),
            }
            for b in self.benchmarks
        ]  # fmt: skip

    def __repr__(self) -> str:
        return "\n".join(f"{b.name}: {b.about} ({b.work})" for b in self.benchmarks)


def list_benchmarks() -> Listing:
    """Every benchmark: what it measures, on what work, against whom, and what it is meant to reach."""
    return Listing(tuple(BENCHMARKS.values()))
