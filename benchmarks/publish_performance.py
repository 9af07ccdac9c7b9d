"""Writes the tables of docs/performance.md, and of the start in docs/command-line.md, from what was measured.

    python -m benchmarks.publish_performance

The files are those of benchmarks/results/bench: NAME.json from `burnish bench NAME --out`, search-NAME.json from
`burnish bench search NAME`, profile-NAME.json from `python -m benchmarks.profile NAME --save`. Between the markers of a
page nothing is written by hand; tests/studies/test_bench_page.py compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from burnish.studies.bench.results import BenchResult, load_result
from burnish.studies.bench.spec import BENCHMARKS, benchmark
from burnish.traces.files import atomic_write

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "bench"
PAGE, COMMANDS = ROOT / "docs" / "performance.md", ROOT / "docs" / "command-line.md"

BEGIN, END = "<!-- measured: {} -->", "<!-- end of {} -->"

STARTS = {
    "import burnish": "import", "burnish --help": "help", "burnish methods": "methods",
    "completion of a key": "completion",
}  # fmt: skip
"""Rows of the table of starts, and their names in the import benchmark."""


def tables(results: Path = RESULTS) -> dict[str, str]:
    """What stands between the markers of docs/performance.md, by name."""
    found = {name: load_result(file) for name in BENCHMARKS if (file := results / f"{name}.json").is_file()}
    return {
        "targets": targets(found), "figures": figures(found), "floors": floors(found), "searches": searches(results),
        "profiles": profiles(results), "machine": machines(found),
    }  # fmt: skip


def targets(found: Mapping[str, BenchResult]) -> str:
    """One row for each target of each benchmark."""
    rows = ["| benchmark | target | reached | |", "|---|---|--:|---|"]
    for name, bench in BENCHMARKS.items():
        reached = {row["target"]: row for row in found[name]["targets"]} if name in found else {}
        for target in bench.targets:
            row = reached.get(str(target))
            value, verdict = ("not measured", "") if row is None else (
                f"{row['value']:.3g}", "met" if row["met"] else "**missed**"
            )  # fmt: skip
            rows.append(f"| {name} | {target} | {value} | {verdict} |")
    return "\n".join(rows)


def figures(found: Mapping[str, BenchResult]) -> str:
    """One row for each peer of each benchmark that was measured."""
    rows = [
        "| benchmark | work | unit | ours (range) | peer | (range) | ratio | peak memory, GB |",
        "|---|---|---|--:|---|--:|--:|---|",
    ]
    for name, result in found.items():
        ours = f"{_number(result['ours'])} ({_range(result['spread'])})"
        start = f"| {name} | {result['work']} | {result['unit']} | {ours} |"
        mine = _gigabytes(result["peak_memory_ours"])
        if not result["peers"]:
            rows.append(f"{start} - | - | - | {mine} |")
        for peer, values in result["peers"].items():
            value = f"{_number(values['value'])} ({_range(values['spread'])})"
            memory = f"{mine}; {_gigabytes(values['peak_memory'])}"
            rows.append(f"{start} {peer} | {value} | {values['ratio']:.2f} | {memory} |")
        for peer, why in result["absent"].items():
            rows.append(f"{start} {peer} | not measured: {why} | - | {mine} |")
    return "\n".join(rows)


def floors(found: Mapping[str, BenchResult]) -> str:
    """One row for each phase of each benchmark with a floor."""
    rows = ["| benchmark | phase | GFLOP | GFLOP/s | floor, s | ours / floor |", "|---|---|--:|--:|--:|--:|"]
    for name, result in found.items():
        if result["floor_ratio"] is None:
            continue
        for phase, part in result["floor"]["phases"].items():
            numbers = f"{part['flops'] / 1e9:,.0f} | {part['flops_per_second'] / 1e9:.0f} | {part['seconds']:.2f}"
            rows.append(f"| {name} | {phase} | {numbers} | |")
        rows.append(f"| {name} | all | | | {result['floor']['seconds']:.2f} | {result['floor_ratio']:.2f} |")
    return "\n".join(rows)


def searches(results: Path) -> str:
    """The table of each search."""
    parts = []
    for name in BENCHMARKS:
        file = results / f"search-{name}.json"
        if not file.is_file():
            continue
        table = json.loads(file.read_text("utf-8"))
        lines = [f"**{name}**, on {table['work']}:", "", "| peer | settings | s | peak memory, GB | |"]
        lines.append("|---|---|--:|--:|---|")
        for row in table["rows"]:
            best = row["settings"] == table["best"].get(row["peer"])
            settings = ", ".join(f"{key} {_setting(value)}" for key, value in row["settings"].items())
            seconds = "-" if row["seconds"] is None else f"{row['seconds']:.2f}"
            memory = _gigabytes(row.get("peak_memory"))
            note = "taken" if best else row.get("note", "")
            lines.append(f"| {row['peer']} | {settings} | {seconds} | {memory} | {_cell(note)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) or "Nothing was searched yet."


def profiles(results: Path) -> str:
    """Shares of operations, a column for each benchmark that was profiled."""
    found = {name: json.loads(file.read_text("utf-8")) for name in BENCHMARKS
             if (file := results / f"profile-{name}.json").is_file()}  # fmt: skip
    if not found:
        return "Nothing was profiled yet."
    kinds = dict.fromkeys(kind for profile in found.values() for kind in profile["shares"])
    rows = [f"| operations | {' | '.join(found)} |", f"|---{'|--:' * len(found)}|"]
    for kind in kinds:
        rows.append(f"| {kind} | " + " | ".join(f"{p['shares'].get(kind, 0):.1%}" for p in found.values()) + " |")
    return "\n".join(rows)


def machines(found: Mapping[str, BenchResult]) -> str:
    """The machine and the versions that the figures are of."""
    seen = []
    for result in found.values():
        machine = result["machine"]
        shown = f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB"
        versions = ", ".join(f"{k} {v}" for k, v in result["versions"].items())
        seen.append(f"* {shown}; {versions}")
    return "\n".join(dict.fromkeys(seen)) or "Nothing was measured yet."


def starts(result: BenchResult) -> str:
    """Processor seconds of fresh processes."""
    rows = [f"| {shown} | {result['starts'][name]['processor']:.2f} s |" for shown, name in STARTS.items()]
    head = f"| A fresh process | Processor time, median of {len(result['runs'])} |"
    return "\n".join([head, "|---|--:|", *rows])


def written(text: str, name: str, table: str) -> str:
    """A page with a table between its markers."""
    begin, end = BEGIN.format(name), END.format(name)
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the page has no {begin} ... {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def pages() -> dict[Path, str]:
    """What each page says with the tables of what was measured last."""
    page = PAGE.read_text("utf-8")
    for name, table in tables().items():
        page = written(page, name, table)
    found = {PAGE: page}
    if (file := RESULTS / f"{benchmark('import').name}.json").is_file():
        found[COMMANDS] = written(COMMANDS.read_text("utf-8"), "starts", starts(load_result(file)))
    return found


def _number(value: float) -> str:
    return f"{value / 1e9:.2f} GB" if value > 1e6 else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _range(spread: list[float]) -> str:
    return " to ".join(map(_number, spread))


def _gigabytes(value: float | None) -> str:
    return "-" if value is None else f"{value / 1e9:.2f}"


def _setting(value: Any) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    """Write the pages."""
    for file, text in pages().items():
        atomic_write(file, text)
        print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
