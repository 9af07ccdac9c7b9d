"""Commands about speed and memory: bench run, list, search, compare."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from burnish.cli.app import KNOWLEDGE, AsJson, app, examples, printable, wide_console
from burnish.errors import InputError
from burnish.running.output import results


class _RunUnlessTold(TyperGroup):
    """`burnish bench NAME` is `burnish bench run NAME`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before a first word that is no command."""
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            args = ["run", *args]
        return super().parse_args(ctx, args)


bench_app = typer.Typer(
    cls=_RunUnlessTold,
    help="Measure speed and memory against what else there is, and against the arithmetic floor.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(bench_app, name="bench", rich_help_panel=KNOWLEDGE)

Threads = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="CPU threads of each side; by default all cores, or the best found"),
]
VllmPython = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="the Python of an environment that has vLLM; by default $BURNISH_VLLM_PYTHON"),
]
Results = Annotated[
    Path, typer.Option("--results", metavar="DIR", help="where results and tables of searches are kept")
]
_FOLDER = Path("benchmarks/results/bench")


def _tell(line: str) -> None:
    print(printable(line), file=sys.stderr)


@bench_app.command(
    epilog=examples(
        "burnish bench run grpo-short memory --json",
        "burnish bench run engine-group --vllm-python ~/vllm/bin/python --runs 5",
        "burnish bench run learner --small",
    )
)
def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="benchmarks; `burnish bench list` shows them")],
    runs: Annotated[int, typer.Option(metavar="N", min=1, help="rounds that are measured")] = 3,
    warm_up: Annotated[int, typer.Option(metavar="N", min=0, help="rounds before them that are not")] = 1,
    threads: Threads = None,
    small: Annotated[
        bool, typer.Option("--small", help="the same on a tiny model, in seconds: for checks, not for figures")
    ] = False,
    prompts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="prompts instead of the benchmark's own number")
    ] = None,
    vllm_python: VllmPython = None,
    results_in: Results = _FOLDER,
    limit: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="a side that takes longer for its work once is ended")
    ] = 1800.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="write the result as JSON; a folder where several are named")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run benchmarks: ours and its peers in turns.

    Prints what was measured, the ratio to the strongest peer, the arithmetic floor and the targets. Those with the same
    work (grpo-short and memory) are measured once when they are named together. Each result is printed and written as
    soon as it is there; where a side fails, the other benchmarks go on. `burnish bench NAME` does as well.
    """
    from burnish.studies.bench.measure import bench
    from burnish.studies.bench.results import BenchResult

    if out is not None and len(names) > 1 and out.suffix:
        raise InputError(f"--out {out}: {len(names)} benchmarks are named, so give a folder")

    def show(result: BenchResult) -> None:
        if out is not None:
            result.save(out if out.suffix else out / f"{result.name}.json")
        print(result.json() if as_json else printable(str(result)), file=results(), flush=True)

    bench(
        *names, runs=runs, warm_up=warm_up, threads=threads, small=small, prompts=prompts, vllm_python=vllm_python,
        results=results_in, limit=limit, each=show, tell=_tell,
    )  # fmt: skip


@bench_app.command("list", epilog=examples("burnish bench list", "burnish bench list --json"))
def list_(as_json: AsJson = False) -> None:
    """Say which benchmarks there are, with their work, peers and targets."""
    from burnish.studies.bench.listing import list_benchmarks

    found = list_benchmarks()
    if as_json:
        print(json.dumps(found.to_json(), indent=1), file=results())
        return
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(Column("name", no_wrap=True), "what", "work", "peers", "targets", show_edge=False)
    for row in found.to_json():
        table.add_row(row["name"], *map(Text, (row["about"], row["work"], ", ".join(row["peers"]), row["targets"])))
    wide_console().print(table)


@bench_app.command(
    epilog=examples("burnish bench search grpo-short", "burnish bench search engine-group --vllm-python PATH")
)
def search(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a benchmark with a peer that has settings")],
    threads: Threads = None,
    vllm_python: VllmPython = None,
    small: Annotated[
        bool, typer.Option("--small", help="on the small version, which says little of the whole")
    ] = False,
    limit: Annotated[float, typer.Option(metavar="SECONDS", help="no further trial begins after so many")] = 400.0,
    results_in: Results = _FOLDER,
    as_json: AsJson = False,
) -> None:
    """Search a peer's settings, and keep the best for later runs.

    Batch, precision, threads, packing, recomputation and compilation are changed one at a time, on shorter work where
    the whole would take long. Writes search-NAME.json into --results; what an earlier search of the same work found of
    a peer stays where it tried more.
    """
    from burnish.studies.bench.search import bench_search

    table = bench_search(
        name, threads=threads, small=small, vllm_python=vllm_python, limit=limit, results=results_in, tell=_tell
    )
    if as_json:
        print(json.dumps(table, indent=1), file=results())
        return
    for peer, settings in table["best"].items():
        print(f"best of {peer}: {json.dumps(settings)}", file=results())


@bench_app.command(epilog=examples("burnish bench compare", "burnish bench compare --update"))
def compare(
    measured: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="results to compare, instead of measuring now")
    ] = None,
    baselines: Annotated[
        Path, typer.Option(metavar="DIR", help="the committed results of the small versions")
    ] = _FOLDER / "small",
    band: Annotated[float, typer.Option(metavar="FACTOR", help="how far a ratio may move either way")] = 2.0,
    update: Annotated[bool, typer.Option("--update", help="commit what was measured as the new baselines")] = False,
    tries: Annotated[int, typer.Option(metavar="N", min=1, help="measure what is outside the band so often")] = 1,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Compare ratios with the committed ones, with a band on both sides.

    Runs the small versions of some benchmarks, in about a minute. Ends with status 1 where a ratio got worse, or better
    than is likely, by more than the band, and where one is missing.
    """
    from burnish.studies.bench.compare import bench_compare

    found = bench_compare(
        measured, baselines=baselines, band=band, update=update, tries=tries, threads=threads, tell=_tell
    )
    print(json.dumps(found.to_json(), indent=1) if as_json else printable(str(found)), file=results())
    if not found.passed:
        raise typer.Exit(1)
