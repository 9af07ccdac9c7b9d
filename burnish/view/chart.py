"""A line chart as inline SVG, coloured by the page's style sheet so that it follows light and dark."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from burnish.view.text import number

Point = tuple[float, float]
Scale = Callable[[float], float]
"""From a value to a place on the chart."""

WIDTH, HEIGHT = 360, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 14, 12, 26
_TITLE = 26  # room for the title over a picture that stands alone


@dataclass(frozen=True)
class Mark:
    """A point with an interval, such as an evaluation."""

    x: float
    y: float
    low: float
    high: float


def ticks(low: float, high: float, count: int = 4) -> list[float]:
    """Round numbers that span low..high, about `count` intervals between them; the first and last lie outside."""
    if not high > low:
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    raw = (high - low) / count
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(s * scale for s in (1, 2, 2.5, 5, 10) if s * scale >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [i * step for i in range(first, last + 1)]


def smoothed(points: Sequence[Point], width: int) -> list[Point]:
    """Centred moving average over `width` points, over fewer near the ends; the mean of the finite ones."""
    half = width // 2
    out = []
    for i, (x, _) in enumerate(points):
        near = [y for _, y in points[max(0, i - half) : i + half + 1] if math.isfinite(y)]
        out.append((x, sum(near) / len(near) if near else math.nan))
    return out


def line_chart(title: str, points: Sequence[Point], marks: Sequence[Mark] = (), *, unit: str = "") -> str:
    """A chart of points (x, y) joined in order, and of marks with their intervals, as a <figure>.

    From 24 points on, the points fade and a moving average is drawn over them. A value that is not finite breaks the
    line. Empty when there is nothing finite to draw.
    """
    picture = drawing(title, points, marks)
    if not picture:
        return ""
    ys = _values(points, marks)
    values = f"{number(ys[0])} → <b>{number(ys[-1])}</b>" if len(ys) > 1 else f"<b>{number(ys[-1])}</b>"
    return (
        f'<figure><figcaption><span>{html.escape(title)}</span><span class="values">{values}{html.escape(unit)}</span>'
        f"</figcaption>{picture}</figure>"
    )


def drawing(title: str, points: Sequence[Point], marks: Sequence[Mark] = (), *, style: str = "") -> str:
    """The chart alone as an <svg>. With a style sheet of its own it is a picture that stands alone, title and all."""
    finite = [(x, y) for x, y in points if math.isfinite(y)]
    if not finite and not marks:
        return ""
    ys = [y for _, y in finite] + [v for mark in marks for v in (mark.low, mark.high)]
    xs = [x for x, _ in finite] + [mark.x for mark in marks]
    y_ticks = ticks(min(ys), max(ys))
    x_low, x_high = min(xs), max(xs)

    def px(x: float) -> float:
        share = (x - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def py(y: float) -> float:
        return HEIGHT - _BOTTOM - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (HEIGHT - _TOP - _BOTTOM)

    body = "".join([_axes(y_ticks, x_low, x_high, px, py), _line(points, finite, px, py), _marks(marks, px, py)])
    label, shown = html.escape(title), _values(points, marks)
    told = f"{label}: from {number(shown[0])} to {number(shown[-1])}, between {number(min(ys))} and {number(max(ys))}"
    if not style:
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{told}">{body}</svg>'
    heading = f'<text class="title" x="{_LEFT}" y="-8">{label}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -{_TITLE} {WIDTH} {HEIGHT + _TITLE}" '
        f'width="{1.5 * WIDTH:g}" role="img" aria-label="{told}"><style>{style}</style>{heading}{body}</svg>'
    )


def _values(points: Sequence[Point], marks: Sequence[Mark]) -> list[float]:
    """The values whose first and last are told: those of the marks where there are any."""
    return [mark.y for mark in marks] or [y for _, y in points if math.isfinite(y)]


def _path(line: Sequence[Point], px: Scale, py: Scale) -> str:
    text, pen = [], "M"
    for x, y in line:
        if math.isfinite(y):
            text.append(f"{pen}{px(x):.1f} {py(y):.1f}")
        pen = "L" if math.isfinite(y) else "M"
    return "".join(text)


def _line(points: Sequence[Point], finite: Sequence[Point], px: Scale, py: Scale) -> str:
    if len(finite) >= 24:
        average = smoothed(points, max(5, len(points) // 12))
        return f'<path class="raw" d="{_path(points, px, py)}"/><path class="line" d="{_path(average, px, py)}"/>'
    if len(finite) > 1:
        return f'<path class="line" d="{_path(points, px, py)}"/>'
    return "".join(f'<circle class="mark" cx="{px(x):.1f}" cy="{py(y):.1f}" r="3.5"/>' for x, y in finite)


def _marks(marks: Sequence[Mark], px: Scale, py: Scale) -> str:
    parts = []
    if len(marks) > 1:
        parts.append(f'<path class="line" d="{_path([(mark.x, mark.y) for mark in marks], px, py)}"/>')
    for mark in marks:
        x = px(mark.x)
        parts.append(f'<path class="whisker" d="M{x:.1f} {py(mark.low):.1f}V{py(mark.high):.1f}"/>')
        parts.append(f'<circle class="mark" cx="{x:.1f}" cy="{py(mark.y):.1f}" r="3.5"/>')
    return "".join(parts)


def _axes(y_ticks: list[float], x_low: float, x_high: float, px: Scale, py: Scale) -> str:
    parts = []
    for y in y_ticks:
        parts.append(f'<path class="grid" d="M{_LEFT} {py(y):.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{py(y) + 3.5:.1f}">{number(y)}</text>')
    inside = [x for x in ticks(x_low, x_high) if x_low <= x <= x_high and x == int(x)]
    for x in inside or [x_low]:
        parts.append(f'<text class="x" x="{px(x):.1f}" y="{HEIGHT - 8}">{number(x)}</text>')
    return "".join(parts)
