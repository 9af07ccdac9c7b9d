"""Comparing ratios with those that were committed, with a band on both sides. No torch here.

Seconds depend on the machine, ratios much less: ours against a peer, against the floor, or against the bare
interpreter, all measured in the same run. A ratio that got worse is a regression. One that got much better without
anybody saying so is a fault as well: most often the work is not done any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from burnish.errors import InputError
from burnish.studies.bench.measure import bench
from burnish.studies.bench.results import FOLDER, BenchResult, figure, load_result

BASELINES = FOLDER / "small"
"""Where the small versions' results are committed."""

BAND = 2.0
"""Factor by which a ratio may move either way. Machines that are shared move it by half; twice is more than noise."""

CHECKED: dict[str, tuple[str, ...]] = {
    "grpo-toy": ("ratio", "steps.ratio"),
    "learner": ("floor_ratio",),
    "engine-group": ("peers.generate.ratio",),
    "import": ("over_python.import", "over_python.help"),
}
"""What is compared of which small benchmark: figures of a result."""

_LESS_IS_BETTER = ("floor_ratio", "over_python.import", "over_python.help")

Verdict = Literal["within", "worse", "suspiciously better", "missing", "other work"]


@dataclass(frozen=True)
class Compared:
    """One figure, now and when it was committed."""

    name: str
    figure: str
    now: float | None
    baseline: float | None
    verdict: Verdict
    note: str = ""

    def __str__(self) -> str:
        both = (("now", self.now), ("committed", self.baseline))
        numbers = ", ".join(f"{what} {value:.3g}" for what, value in both if value is not None) or "no figures"
        return f"{self.name} {self.figure}: {numbers}: {self.verdict}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Comparison:
    """Every compared figure."""

    rows: list[Compared]
    band: float

    @property
    def passed(self) -> bool:
        """Whether every figure is within the band."""
        return all(row.verdict == "within" for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"passed": self.passed, "band": self.band, "rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))


def bench_compare(
    measured: str | Path | None = None,
    *,
    baselines: str | Path = BASELINES,
    band: float = BAND,
    update: bool = False,
    tries: int = 1,
    threads: int | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """Run the small versions of some benchmarks and compare their ratios with the committed ones.

    `measured` is a folder of results to compare instead of running anything; `update` writes what was measured over the
    committed results. What is outside the band is measured again, up to `tries` times in all: a busy moment passes, a
    regression stays. Raises InputError for a folder that is not there, RunError where a side fails.
    """
    if tries < 1:
        raise InputError(f"tries must be at least 1, not {tries}")
    if band <= 1:
        raise InputError(f"band must be above 1, not {band:g}: it is the factor by which a ratio may move either way")
    folder = Path(baselines)
    if not update and not folder.is_dir():
        raise InputError(f"{folder}: no such folder; run this in a checkout, or give --baselines the folder of results")

    def run(names: Collection[str]) -> dict[str, BenchResult]:
        found = bench(*names, runs=1, small=True, threads=threads, results=folder.parent, tell=tell)
        return {result.name: result for result in found}

    now = run(CHECKED) if measured is None else read_results(Path(measured))
    if update:
        for name, result in now.items():
            result.save(folder / f"{name}.json")
    return settled(now, read_results(folder), band, tries if measured is None else 1, run, tell)


def settled(
    now: Mapping[str, BenchResult],
    baselines: Mapping[str, BenchResult],
    band: float,
    tries: int,
    run: Callable[[Collection[str]], Mapping[str, BenchResult]],
    tell: Callable[[str], None] = lambda line: None,
) -> Comparison:
    """`compare`, with what is outside the band measured again by `run` until it is inside or `tries` are used up."""
    found = compare(now, baselines, band)
    for _ in range(1, tries):
        outside = sorted({row.name for row in found.rows if row.verdict in ("worse", "suspiciously better")})
        if not outside:
            break
        tell(f"outside the band, measured again: {', '.join(outside)}")
        now = {**now, **run(outside)}
        found = compare(now, baselines, band)
    return found


def read_results(folder: Path) -> dict[str, BenchResult]:
    """The results in a folder by name. Raises InputError for a folder that is not there or a file that is no result."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of results")
    found = [load_result(file) for file in sorted(folder.glob("*.json"))]
    return {result.name: result for result in found}


def compare(
    now: Mapping[str, BenchResult],
    baselines: Mapping[str, BenchResult],
    band: float = BAND,
    checked: Mapping[str, Sequence[str]] = CHECKED,
) -> Comparison:
    """Each checked figure with its verdict; one that is missing on either side does not pass."""
    rows = []
    for name, figures in checked.items():
        for of_result in figures:
            rows.append(_compared(name, of_result, now.get(name), baselines.get(name), band))
    return Comparison(rows, band)


def _compared(name: str, of_result: str, now: BenchResult | None, base: BenchResult | None, band: float) -> Compared:
    mine = None if now is None else figure(now.values, of_result)
    theirs = None if base is None else figure(base.values, of_result)
    if mine is None or theirs is None:
        where = "was not measured" if mine is None else "is not committed: `burnish bench compare --update` adds it"
        return Compared(name, of_result, mine, theirs, "missing", where)
    assert now is not None and base is not None  # both have the figure
    if now["work"] != base["work"]:
        return Compared(name, of_result, mine, theirs, "other work", f"{now['work']}; committed: {base['work']}")
    better = theirs / mine if of_result in _LESS_IS_BETTER else mine / theirs
    verdict: Verdict = "within" if 1 / band <= better <= band else "worse" if better < 1 else "suspiciously better"
    return Compared(name, of_result, mine, theirs, verdict, _elsewhere(now, base))


def _elsewhere(now: BenchResult, base: BenchResult) -> str:
    """What of the machine differs from the one that the committed result is of."""
    differing = [
        f"{key} {now['machine'].get(key)}, committed {base['machine'].get(key)}"
        for key in ("processor", "cores")
        if now["machine"].get(key) != base["machine"].get(key)
    ]
    return "another machine: " + "; ".join(differing) if differing else ""
