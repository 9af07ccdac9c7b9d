"""Random numbers are a pure function of their coordinates, and uniform."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from scipy import stats

from burnish.randomness import counter_generator, counter_hash, counter_uniform, stable_hash


def test_a_number_depends_on_its_coordinates_alone() -> None:
    many = counter_uniform(3, 5, np.arange(4)[:, None], np.arange(6)[None])
    assert many.shape == (4, 6)
    assert all(many[i, j] == counter_uniform(3, 5, i, j) for i in range(4) for j in range(6))
    assert len(np.unique(many)) == 24
    assert counter_uniform(1, 2) != counter_uniform(2, 1)
    assert counter_hash(-1) == counter_hash(2**64 - 1)
    assert counter_generator(1, 2).integers(1000) == counter_generator(1, 2).integers(1000)


def test_numbers_are_uniform_along_every_coordinate_and_never_touch_the_ends() -> None:
    for axis in range(3):
        coordinates: list[object] = [7, 8, 9]
        coordinates[axis] = np.arange(20_000)
        values = counter_uniform(*coordinates)  # type: ignore[arg-type]
        assert values.min() > 0 and values.max() < 1
        assert stats.kstest(values, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02


def test_hashes_are_the_same_in_another_process() -> None:
    code = "from burnish.randomness import *; print(stable_hash('täsk'), int(counter_hash(1, stable_hash('x'))))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert out == [str(stable_hash("täsk")), str(int(counter_hash(1, stable_hash("x"))))]
