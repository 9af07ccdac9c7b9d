"""Puts a study's results into its page of the documents, with a picture of its curves.

    python -m benchmarks.study_page sft-rl

reads benchmarks/results/STUDY (`burnish study FILE --table` works it out again), and writes what stands between the
marks of docs/study-STUDY.md, and docs/images/study-STUDY.svg.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from burnish.studies.comparison.table import sections
from burnish.traces.files import atomic_write

RESULTS = Path("benchmarks/results")
SHOWN = ("Verdicts", "Each method on each task", "What the last value hides", "Ranks")


def page(text: str, results: dict[str, Any]) -> str:
    """The page with its tables written anew."""
    found = sections(results)
    tables = "\n\n".join(f"### {name}\n\n{found[name]}" for name in SHOWN)
    return re.sub(
        r"(<!-- results: begin -->\n).*?(<!-- results: end -->)",
        lambda m: f"{m[1]}\n{tables}\n\n{m[2]}",
        text,
        flags=re.S,
    )


def picture(results: dict[str, Any], path: Path) -> None:
    """A panel for each model and task: solid in distribution, dotted across."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    matplotlib.rcParams["svg.hashsalt"] = "burnish"  # the same picture has the same bytes
    rows = [row for row in results["rows"] if row["seeds"]]
    models, tasks = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "task"))
    figure, axes = plt.subplots(len(models), len(tasks), figsize=(2.6 * len(tasks), 2.3 * len(models)), squeeze=False,
                                sharex=True, sharey=True)  # fmt: skip
    methods = list(dict.fromkeys(row["method"] for row in rows))
    for row in rows:
        axis = axes[models.index(row["model"])][tasks.index(row["task"])]
        colour = f"C{methods.index(row['method'])}"
        axis.plot([100 * share for share in results["shares"]], row["in"]["curve"], color=colour, label=row["method"])
        if row["across"] is not None:
            axis.plot([100 * share for share in results["shares"]], row["across"]["curve"], color=colour, ls=":")
        axis.axvline(100, color="0.8", lw=0.8, zorder=0)
        axis.set_title(f"{row['model']}, {row['task']}", fontsize=9)
    axes[0][0].legend(fontsize=7)
    figure.supxlabel("% of the budget", fontsize=9)
    figure.supylabel("right", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Write the page and the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study")
    name = parser.parse_args().study
    results = json.loads((RESULTS / name / "results.json").read_text("utf-8"))
    place = Path("docs") / f"study-{name}.md"
    atomic_write(place, page(place.read_text("utf-8"), results))
    picture(results, Path("docs/images") / f"study-{name}.svg")


if __name__ == "__main__":
    main()
