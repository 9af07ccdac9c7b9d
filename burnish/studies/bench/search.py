"""Searching a peer's settings, so that ours is compared with the best the peer can do here. No torch here.

One setting is changed at a time and the best value kept. A trial that takes half as long again as the best so far is
broken off; the table says so. A table is of one piece of work and one machine, and a search that tried less than
another before it does not replace what that one found.
"""

from __future__ import annotations

import json
import os
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

_NOT_TRIED = "not tried, the time for the search was over"


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

    After `limit` seconds no further trial begins, and the table says which were not tried. What an earlier search of
    the same work on this machine found of a peer stays where it tried more, or where the peer is not searched now.
    `small` searches on the small version, which says little of the whole, and writes search-NAME-small.json. `threads`
    are the peers' CPU threads, which are then not searched. Returns what this search found. Raises InputError for a
    benchmark without anything to search, RunError where no settings worked.
    """
    one = benchmark(name)
    peers = [peer for peer in one.peers if (name, peer) in AXES]
    if not peers:
        raise InputError(f"{name} has no settings of a peer to search" + (
            f"; it takes those of {one.settings_of}" if one.settings_of else ""
        ))  # fmt: skip
    python = jobs.vllm_python(vllm_python)
    work, file = _work_of(one, small), _file_of(Path(results), name, small)
    table: dict[str, Any] = {
        "name": name, "work": str(work), "best": {}, "rows": [], "machine": machine(), "versions": versions(python),
    }  # fmt: skip
    for peer in peers:
        if peer == "vllm" and python is None:
            tell("vllm: left out, no interpreter with vLLM was named")
            continue
        begin = best_settings(Path(results), one, peer, threads, small=small, strict=False)
        if "batch" in begin:  # more than there are would be tried twice
            begin["batch"] = min(begin["batch"], len(work.lengths) or work.rows)
        axes = [(key, values) for key, values in AXES[name, peer] if key != "threads" or threads is None]
        found = _search(_Trials(work, peer, python, tell), begin, axes, limit / len(peers))
        table["best"][peer] = found.best
        table["rows"] += found.rows
    kept = _beside(_read(file) if file.is_file() else None, table, tell)
    atomic_write(file, json.dumps(kept, indent=1) + "\n")
    return table


def best_settings(
    results: Path,
    bench: Benchmark,
    peer: str,
    threads: int | None = None,
    *,
    small: bool = False,
    strict: bool = True,
) -> Settings:
    """The best settings that a search found for a peer, else those to begin with; `threads` instead of those found.

    For the small version those of the whole are what a search of its own begins with. Raises InputError for a file that
    is no table, and where one is of other work than the benchmark is searched on; without `strict` that is passed over.
    """
    settings = {**DEFAULTS[peer], "threads": cores()}
    for name in (bench.begins_with, bench.settings_of or bench.name):
        for size in (False, True) if small else (False,):
            file = _file_of(results, name, size) if name else None
            if name is None or file is None or not file.is_file():
                continue
            table, work = _read(file), str(_work_of(benchmark(name), size))
            if table["work"] == work:
                best = table["best"].get(peer, {})
                elsewhere = table.get("machine", {}).get("cores") != os.cpu_count()
                settings |= {key: value for key, value in best.items() if key != "threads" or not elsewhere}
            elif strict:
                again = f"burnish bench search {name}" + (" --small" if size else "")
                raise InputError(f"{file} was searched on other work ({table['work']}, not {work}): run `{again}`")
    return settings | ({"threads": threads} if threads else {})


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _work_of(bench: Benchmark, small: bool) -> Work:
    """What a benchmark's peers are searched on."""
    return bench.small if small else bench.searched or bench.work


def _file_of(results: Path, name: str, small: bool) -> Path:
    return results / f"search-{name}{'-small' if small else ''}.json"


def _read(file: Path) -> dict[str, Any]:
    """A table. Raises InputError for anything else."""
    try:
        table = json.loads(file.read_text("utf-8"))
        tables = all(isinstance(table["best"][peer], dict) for peer in table["best"])
        if tables and all(row["peer"] and row["settings"] for row in table["rows"]) and table["work"]:
            return table
        error = "its best settings are no settings"
    except (ValueError, KeyError, TypeError, AttributeError) as fault:
        error = repr(fault)
    raise InputError(f"{file} is no table of a search ({error}): remove it and run `burnish bench search`")


def _beside(old: dict[str, Any] | None, new: dict[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    """The new table with what the old one found of the same work and machine where it tried more of a peer."""
    if old is None or old["work"] != new["work"] or any(
        old.get("machine", {}).get(key) != new["machine"][key] for key in ("processor", "cores")
    ):  # fmt: skip
        return new
    best, rows = {}, []
    for peer in dict.fromkeys([*old["best"], *new["best"]]):
        before, now = (_tried(table, peer) for table in (old, new))
        if now and before > now:
            tell(f"{peer}: what an earlier search found stays, it tried {before} settings and this one {now}")
        table = old if before > now else new
        best[peer] = table["best"][peer]
        rows += [row for row in table["rows"] if row["peer"] == peer]
    return {**new, "best": best, "rows": rows}


def _tried(table: dict[str, Any], peer: str) -> int:
    """How many settings of a peer were tried."""
    return sum(row["peer"] == peer and row.get("note") != _NOT_TRIED for row in table["rows"])


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
            row |= {"seconds": None, "note": _NOT_TRIED}
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
