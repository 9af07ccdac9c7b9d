"""One metric of a run as a picture: what a notebook shows, or an SVG file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from burnish.errors import InputError
from burnish.tasks.suggest import did_you_mean
from burnish.traces.files import atomic_write
from burnish.view.chart import Point, drawing
from burnish.view.record import read_run

_STYLE = (
    "svg{background:#fff;font-family:system-ui,sans-serif}text{fill:#646b75;font-size:11px}"
    "text.y{text-anchor:end}text.x{text-anchor:middle}text.title{fill:#1d2126;font-size:13px;font-weight:600}"
    ".grid{stroke:#e4e1da}.line{fill:none;stroke:#0b7a6f;stroke-width:2;stroke-linejoin:round}"
    ".raw{fill:none;stroke:#0b7a6f;opacity:.3}.mark{fill:#fff;stroke:#0b7a6f;stroke-width:2}"
)


@dataclass(frozen=True)
class Curve:
    """A metric by step. A notebook draws it; from 24 steps on a moving average lies over the values."""

    metric: str
    points: tuple[Point, ...] = field(repr=False)
    """(step, value); NaN where a value is missing."""

    def svg(self) -> str:
        """The picture."""
        return drawing(f"{self.metric} by step", self.points, style=_STYLE)

    def save(self, path: str | Path) -> Path:
        """Write the picture to an .svg file."""
        atomic_write(path, self.svg() + "\n")
        return Path(path)

    def _repr_svg_(self) -> str:
        return self.svg()


def curve(run: str | Path, metric: str = "reward") -> Curve:
    """A metric of a run directory by step, from whatever the run has written so far.

    Raises InputError when this is no run, and when it has no such metric or no value of it yet.
    """
    record = read_run(Path(run))
    points = tuple(record.series(metric))
    if metric not in record.metric_names():
        raise InputError(f"{run} has no metric {metric!r}; {did_you_mean(metric, record.metric_names())}")
    return Curve(metric, points)
