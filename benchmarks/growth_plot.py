"""Cost over size, as SVG files: time with its spread and memory, each with the slope of the arithmetic beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

mpl.rcParams["svg.hashsalt"] = "growth"  # the same file for the same numbers

_TIME, _MEMORY, _QUIET = "#0b7a6f", "#b4532a", "#9a9ea5"


def draw(found: dict[str, dict[str, Any]], folder: Path) -> None:
    """One file a job, one panel an axis."""
    for job in dict.fromkeys(one["job"] for one in found.values()):
        axes = [one for one in found.values() if one["job"] == job]
        columns = 4 if len(axes) > 6 else 3
        rows = -(-len(axes) // columns)
        figure = Figure(figsize=(3.1 * columns, 2.7 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, squeeze=False).flatten()
        for panel, one in zip(panels, axes, strict=False):
            _panel(panel, one)
        for panel in panels[len(axes) :]:
            panel.set_axis_off()
        figure.savefig(folder / f"growth-{job}.svg", metadata={"Date": None})


def _panel(panel: Any, one: dict[str, Any]) -> None:
    sizes, fit = np.array(one["sizes"]), one["fit"]
    times = np.array(one["seconds"])
    middle = np.median(times, axis=1)
    panel.loglog(sizes, middle, "o-", color=_TIME, markersize=3, label=f"time, {fit['time']:.2f}")
    panel.fill_between(sizes, times.min(axis=1), times.max(axis=1), color=_TIME, alpha=0.2, linewidth=0)
    flops = np.array(one["flops"], dtype=float)
    arithmetic = f"arithmetic, {fit['arithmetic']:.2f}"
    panel.loglog(sizes, flops * middle[-1] / flops[-1], "--", color=_QUIET, linewidth=1, label=arithmetic)
    panel.set_title(one["axis"], fontsize=9)
    panel.set_ylabel("seconds", fontsize=7, color=_TIME)
    other = panel.twinx()
    peaks = np.array(one["peak_bytes"]) / 1e6
    other.loglog(sizes, peaks, "s:", color=_MEMORY, markersize=2.5, label=f"memory, {fit['memory']:.2f}")
    other.set_ylabel("MB", fontsize=7, color=_MEMORY)
    for axis in (panel, other):
        axis.tick_params(labelsize=6)
        axis.minorticks_off()
    handles = [handle for axis in (panel, other) for handle in axis.get_lines()]
    panel.legend(handles=handles, fontsize=6, frameon=False, loc="upper left")
