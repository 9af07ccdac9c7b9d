"""The result of a benchmark: one JSON object, from the figures of its rounds. No torch here."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.studies.bench.spec import Benchmark
from burnish.traces.files import atomic_write

KEYS = ("name", "unit", "ours", "peer", "ratio", "floor_ratio", "peak_memory_ours", "peak_memory_peer", "runs")
"""What every result has, in this order; further keys follow."""

FOLDER = Path("benchmarks/results/bench")
"""Where results, searches and the baselines of small versions are committed."""


@dataclass(frozen=True)
class BenchResult:
    """What `burnish bench NAME --json` prints. `ratio` is how many times better ours is, whatever the unit."""

    values: Mapping[str, Any]

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    @property
    def name(self) -> str:
        """The benchmark's."""
        return str(self.values["name"])

    @property
    def missed(self) -> list[str]:
        """Targets that were not met."""
        return [t["target"] for t in self.values.get("targets", ()) if not t["met"]]

    def json(self) -> str:
        """The result as one JSON object."""
        return json.dumps(self.values)

    def save(self, file: Path) -> None:
        """Write it as indented JSON."""
        atomic_write(file, json.dumps(self.values, indent=1) + "\n")

    def __str__(self) -> str:
        values, lines = self.values, []
        against = f", {values['peer_name']} {_figure(values['peer'])}: {values['ratio']:.2f}x" if values["peer"] else ""
        lines.append(f"{values['name']}: {_figure(values['ours'])} {values['unit']}{against}")
        for name, peer in values.get("peers", {}).items():
            if len(values["peers"]) > 1:
                lines.append(f"  {name}: {_figure(peer['value'])}, {peer['ratio']:.2f}x")
        for name, why in values.get("absent", {}).items():
            lines.append(f"  {name}: not measured, {why}")
        if values["floor_ratio"] is not None:
            floor = values["floor"]
            parts = ", ".join(
                f"{name} {part['seconds']:.2f} s at {part['flops_per_second'] / 1e9:.0f} GFLOP/s"
                for name, part in floor["phases"].items()
            )
            lines.append(f"  floor: {floor['seconds']:.2f} s ({parts}); ours takes {values['floor_ratio']:.2f} of it")
        if values["peak_memory_ours"]:
            sides = [
                f"{side} {peak / 1e9:.2f} GB" for side in ("ours", "peer") if (peak := values[f"peak_memory_{side}"])
            ]
            lines.append(f"  peak memory: {', '.join(sides)}")
        for target in values.get("targets", ()):
            lines.append(f"  {target['target']}: {target['value']:.3g}, {'met' if target['met'] else 'missed'}")
        return "\n".join(lines)


def load_result(file: Path) -> BenchResult:
    """Read a result. Raises InputError where the file is none."""
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{file} is no result of a benchmark ({error}); `burnish bench NAME --out FILE` makes one"
        ) from None
    if not isinstance(values, dict) or (absent := [key for key in KEYS if key not in values]):
        raise InputError(f"{file} is no result of a benchmark: it lacks {', '.join(absent)}")
    return BenchResult(values)


def result(
    bench: Benchmark,
    rounds: Sequence[Mapping[str, float]],
    *,
    peaks: Mapping[str, int],
    floor: Mapping[str, Any] | None = None,
    seconds: float | None = None,
    **more: Any,
) -> BenchResult:
    """The result from each round's value of every side by name ("ours", and the peers').

    The peer of the top level is the strongest one that was measured. `floor` is what `floor.seconds` gives, `seconds`
    ours for the same work. Medians are over rounds, and a ratio is the median of the rounds' own ratios.
    """
    peers = {}
    for name in (n for n in rounds[0] if n != "ours"):
        each = [of_round[name] for of_round in rounds]
        ratios = [_ratio(bench, of_round["ours"], of_round[name]) for of_round in rounds]
        peers[name] = {
            "value": statistics.median(each), "ratio": statistics.median(ratios), "ratios": ratios,
            "spread": [min(each), max(each)], "peak_memory": peaks.get(name),
        }  # fmt: skip
    strongest = min(peers, key=lambda name: peers[name]["ratio"], default=None)
    ours = [of_round["ours"] for of_round in rounds]
    values: dict[str, Any] = {
        "name": bench.name, "unit": bench.unit, "ours": statistics.median(ours),
        "peer": peers[strongest]["value"] if strongest else None,
        "ratio": peers[strongest]["ratio"] if strongest else None,
        "floor_ratio": seconds / floor["seconds"] if floor and seconds else None,
        "peak_memory_ours": peaks.get("ours"), "peak_memory_peer": peaks.get(strongest) if strongest else None,
        "runs": [dict(of_round) for of_round in rounds],
        "peer_name": strongest, "peers": peers, "spread": [min(ours), max(ours)], "floor": floor, **more,
    }  # fmt: skip
    values["targets"] = _targets(bench, values)
    return BenchResult(values)


def _ratio(bench: Benchmark, ours: float, peer: float) -> float:
    """How many times better ours is: more is better of a rate, less of seconds and bytes."""
    return ours / peer if bench.measure == "rate" else peer / ours


def _targets(bench: Benchmark, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each target with what was reached; one whose figure could not be measured is left out, and `absent` says why."""
    found = []
    for target in bench.targets:
        value = figure(values, target.figure)
        if value is not None:
            found.append({"target": str(target), "value": value, "met": target.met(value)})
    return found


def figure(values: Mapping[str, Any], name: str) -> float | None:
    """A figure of a result by its keys with dots between; None where there is none."""
    found: Any = values
    for key in name.split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return None if found is None else float(found)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
