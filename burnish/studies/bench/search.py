"""Searching a peer's settings, so that ours is compared with the best the peer can do here. No torch here.

One setting is changed at a time and the best value kept. A trial that takes half as long again as the best so far is
broken off; the table says so.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.studies.bench import jobs
from burnish.studies.bench.children import START_LIMIT, TooSlowError, run_once, started
from burnish.studies.bench.machine import machine, versions
from burnish.studies.bench.results import FOLDER
from burnish.studies.bench.spec import AXES, DEFAULTS, FIXED, Axis, Benchmark, Settings, Work, benchmark
from burnish.traces.files import atomic_write


def bench_search(
    name: str,
    *,
    threads: int | None = None,
    small: bool = False,
    vllm_python: str | None = None,
    limit: float = 400.0,
    results: str | Path = FOLDER,
    tell: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Search the settings of a benchmark's peers, one after the other, and write results/search-NAME.json.

    After `limit` seconds no further trial begins, and the table says which were not tried. `small` searches on the
    small version, which says little of the whole. Returns the table. Raises InputError for a benchmark without anything
    to search, RunError where no settings worked.
    """
    one = benchmark(name)
    peers = [peer for peer in one.peers if (name, peer) in AXES]
    if not peers:
        raise InputError(f"{name} has no settings of a peer to search" + (
            f"; it takes those of {one.settings_of}" if one.settings_of else ""
        ))  # fmt: skip
    python = jobs.vllm_python(vllm_python)
    work, results = one.small if small else one.searched or one.work, Path(results)
    table: dict[str, Any] = {
        "name": name, "work": str(work), "best": {}, "rows": [], "machine": machine(), "versions": versions(python),
    }  # fmt: skip
    for peer in peers:
        if peer == "vllm" and python is None:
            tell("vllm: left out, no interpreter with vLLM was named")
            continue
        begin = best_settings(results, one, peer, threads)
        if "batch" in begin:  # more than there are would be tried twice
            begin["batch"] = min(begin["batch"], len(work.lengths) or work.rows)
        found = _search(_Trials(work, peer, python, tell), begin, AXES[name, peer], limit / len(peers))
        table["best"][peer] = found.best
        table["rows"] += found.rows
    atomic_write(results / f"search-{name}.json", json.dumps(table, indent=1) + "\n")
    return table


def best_settings(results: Path, bench: Benchmark, peer: str, threads: int | None = None) -> Settings:
    """The best settings that a search found for a peer, else those to begin with. Raises InputError for a bad file."""
    settings = {**DEFAULTS[peer]} | ({"threads": threads} if threads else {})
    for name in (bench.begins_with, bench.settings_of or bench.name):
        file = results / f"search-{name}.json"
        if name and file.is_file():
            try:
                settings |= json.loads(file.read_text("utf-8"))["best"].get(peer, {})
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"{file} is no table of a search ({error!r}): run `burnish bench search {name}`"
                ) from None
    return settings


@dataclass
class _Found:
    best: Settings
    rows: list[dict[str, Any]]


@dataclass(frozen=True)
class _Trials:
    """Trials of one peer's settings on one piece of work."""

    work: Work
    peer: str
    python: str | None
    tell: Callable[[str], None]

    def seconds(self, settings: Settings, best: float) -> dict[str, Any]:
        """How long the work takes with these settings, or why that is not known."""
        patience = START_LIMIT if best == float("inf") else 5 + 1.5 * best + (90 if settings.get("compile") else 0)
        with tempfile.TemporaryDirectory(prefix="burnish-bench-") as name:
            folder = Path(name)
            facts = jobs.prepare(folder, self.work)
            job = jobs.peer(self.peer, folder, self.work, facts, settings, self.python)
            try:
                if self.work.kind == "toy":
                    ran = run_once(job, folder)
                    return {"seconds": ran.seconds, "peak_memory": ran.peak_memory}
                with started([job], folder, limit=180) as children:
                    figures = children[self.peer].go(patience)
                    if settings.get("compile") or self.work.kind == "engine":  # the first one warms up, or compiles
                        figures = children[self.peer].go(patience)
            except TooSlowError:
                return {"seconds": None, "note": f"broken off after {patience:.0f} s"}
            except RunError as error:
                return {"seconds": None, "note": f"failed: {_reason(error)}"}
        return {"seconds": figures["seconds"], "peak_memory": figures["peak_memory"]}


def _search(trials: _Trials, begin: Settings, axes: Sequence[Axis], limit: float) -> _Found:
    """Change one setting at a time and keep what is faster."""
    started_at, rows = time.perf_counter(), []
    best, least = dict(begin), float("inf")
    tried = [(None, best)]
    for key, values in axes:
        tried += [(key, {key: value}) for value in values]
    for key, change in tried:
        settings = {**best, **change}
        if key is not None and settings == best:
            continue
        row: dict[str, Any] = {"peer": trials.peer, "settings": settings, "changed": key}
        if time.perf_counter() - started_at > limit:
            row |= {"seconds": None, "note": "not tried, the time for the search was over"}
        else:
            row |= trials.seconds(settings, least)
        rows.append(row)
        trials.tell(f"{trials.peer} {change if key else settings}: {row['seconds'] or row['note']}")
        if row["seconds"] is not None and row["seconds"] < least and key not in FIXED:
            best, least = settings, row["seconds"]
    if least == float("inf"):
        raise RunError(f"no settings of {trials.peer} worked: {rows[0].get('note')}")
    return _Found(best, rows)


def _reason(error: RunError) -> str:
    """The last line of what a side left behind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:200]
