"""Reward by step of one recipe over its seeds, as an SVG file."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 760, 300, 56, 44, 40, 150
_COLOUR, _QUIET = "#0b7a6f", "#646b75"


def picture(title: str, runs: Sequence[dict[str, Any]]) -> str:
    """Mean reward of each step for every seed (thin) and their mean (thick); beside it accuracy before and after.

    `runs` are results of `benchmarks.rlvr` with as many steps each. The scale runs from 0 to 1, further where a reward
    lies outside. A step whose rewards were all missing breaks the line.
    """
    series = [[_value(step["reward"]) for step in run["steps_recorded"]] for run in runs]
    mean = [sum(values) / len(values) for values in zip(*series, strict=True)]
    finite = [value for one in series for value in one if math.isfinite(value)]
    low, high = min([0.0, *finite]), max([1.0, *finite])

    def point(step: float, value: float) -> tuple[float, float]:
        x = _LEFT + step / max(1, len(mean) - 1) * (_WIDTH - _LEFT - _RIGHT)
        return x, _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _BOTTOM - _TOP)

    def line(values: Sequence[float], style: str) -> str:
        drawn = [[]]
        for step, value in enumerate(values):
            if math.isfinite(value):
                drawn[-1].append("{:.1f},{:.1f}".format(*point(step, value)))
            else:
                drawn.append([])
        return "".join(f'<polyline points="{" ".join(part)}" fill="none" {style}/>' for part in drawn if part)

    def rule(value: float) -> str:
        y = point(0, value)[1]
        return (
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d9d5cc"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{value:.2g}</text>'
        )

    thin = f'stroke="{_COLOUR}" stroke-opacity=".28" stroke-width="1.2"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'font-family="system-ui,sans-serif" font-size="12.5" fill="#1d2126">'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="10" fill="#fbfaf8"/>'
        f'<text x="{_LEFT}" y="24" font-weight="600">{html.escape(title)}</text>'
        + "".join(rule(low + part * (high - low)) for part in (0, 0.25, 0.5, 0.75, 1.0))
        + "".join(line(one, thin) for one in series)
        + line(mean, f'stroke="{_COLOUR}" stroke-width="3"')
        + f'<text x="{_LEFT}" y="{_HEIGHT - 12}" fill="{_QUIET}">step 1</text>'
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 12}" text-anchor="end" fill="{_QUIET}">step {len(mean)}</text>'
        f"{_side(runs)}</svg>\n"
    )


def _value(reward: float | None) -> float:
    return math.nan if reward is None else float(reward)


def _side(runs: Sequence[dict[str, Any]]) -> str:
    """The held-out accuracy, mean over seeds, where it was measured."""
    many = f"{len(runs)} seed" + "s" * (len(runs) != 1)
    if not all("comparison" in run for run in runs):
        lines = [(110, f'fill="{_QUIET}"', many)]
    else:
        before, after = (
            sum(run[end]["accuracy"]["estimate"] for run in runs) / len(runs) for end in ("before", "after")
        )
        large = 'font-size="24" font-weight="650"'
        lines = [
            (110, f'fill="{_QUIET}"', "held-out accuracy"), (140, large, f"{before:.2f}"),
            (164, f'fill="{_QUIET}"', "became"), (194, f'{large} fill="{_COLOUR}"', f"{after:.2f}"),
            (220, f'fill="{_QUIET}"', f"{runs[0]['comparison']['items']} items"), (238, f'fill="{_QUIET}"', many),
        ]  # fmt: skip
    return "".join(f'<text x="{_WIDTH - _RIGHT + 16}" y="{y}" {style}>{text}</text>' for y, style, text in lines)
