"""What the sandbox keeps on this machine, measured by trying to break out of it."""

from __future__ import annotations

from dataclasses import dataclass

from burnish.environments.sandbox import NamespaceProvider
from burnish.environments.sandbox.probe import Row, Starts, measure_starts, probe
from burnish.running.sync import finished


@dataclass(frozen=True)
class Probed:
    """One row for each thing that a sandbox promises, and how fast sandboxes start (None: none can be made)."""

    rows: tuple[Row, ...]
    starts: Starts | None

    def __str__(self) -> str:
        return "\n".join(f"{row.name}: {'yes' if row.holds else 'no'} ({row.seen})" for row in self.rows)


def probe_sandbox() -> Probed:
    """Measure what holds here: namespaces, network, memory, processes, hidden files, output, start time."""
    return finished(_measure())


async def _measure() -> Probed:
    async with NamespaceProvider() as provider:
        return Probed(tuple(await probe(provider)), await measure_starts(provider))
