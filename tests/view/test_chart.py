"""Charts: round ticks that enclose the data, gaps where a value is absent."""

from __future__ import annotations

import itertools
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from burnish.view.chart import HEIGHT, WIDTH, Mark, line_chart, smoothed, ticks
from burnish.view.text import number, shown

NUMBERS = st.floats(-1e6, 1e6).map(lambda x: round(x, 4))


@given(NUMBERS, NUMBERS)
def test_ticks_enclose_the_data_in_even_steps(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    found = ticks(low, high)
    tolerance = 1e-6 * max(1.0, abs(low), abs(high))
    assert found[0] <= low + tolerance and found[-1] >= high - tolerance and 2 <= len(found) <= 8
    steps = [y - x for x, y in itertools.pairwise(found)]
    assert max(steps) - min(steps) <= tolerance


@given(st.lists(st.one_of(NUMBERS, st.just(math.nan)), min_size=1, max_size=60))
def test_every_point_lies_on_the_chart(values: list[float]) -> None:
    figure = line_chart("x", list(enumerate(values)))
    assert bool(figure) == any(math.isfinite(v) for v in values)
    assert "nan" not in figure and "inf" not in figure
    for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", figure):
        assert 0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT


def test_an_absent_value_breaks_the_line() -> None:
    figure = line_chart("x", [(0, 1.0), (1, 2.0), (2, math.nan), (3, 1.0), (4, 2.0)])
    line = re.search(r'class="line" d="([^"]*)"', figure)
    assert line is not None and line[1].count("M") == 2 and line[1].count("L") == 2


def test_marks_have_whiskers() -> None:
    figure = line_chart("x", [], [Mark(0, 0.1, 0.0, 0.2), Mark(50, 0.8, 0.7, 0.9)])
    assert figure.count("whisker") == figure.count("<circle") == 2


def test_the_moving_average_keeps_steps_and_skips_gaps() -> None:
    assert smoothed([(0, 1.0), (1, math.nan), (2, 3.0)], 3) == [(0, 1.0), (1, 2.0), (2, 3.0)]
    assert [x for x, _ in smoothed([(5, 1.0), (9, 2.0)], 5)] == [5, 9]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.5, "0.5"),
        (0.12345, "0.123"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (2.5e-5, "2.5e-05"),
        (2.1e9, "2.1e+09"),
        (-0.25, "-0.25"),
    ],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert number(value) == text


def test_long_text_is_cut_and_counted() -> None:
    assert shown("a" * 12, longest=10) == 'aaaaaaaaaa<span class="hidden">2 more characters</span>'
    assert shown("\ud800<&\n\t") == '<span class="hidden">U+D800</span>&lt;&amp;\n\t'
