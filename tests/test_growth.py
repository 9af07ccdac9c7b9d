"""Work that doubles costs no more than twice as much: counted, not timed, so that it holds on every machine.

What is counted are calls of Python functions and lines of our own that are run, operations of torch, and bytes.
benchmarks/growth.py times the same work further out; docs/growth.md has what it measured.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.growth import fitted, slope
from benchmarks.growth_work import AXES, Axis, Work, update

ROOT = Path(__file__).parents[1]
OURS = tuple(f"{ROOT / name}/" for name in ("burnish", "benchmarks", "tests"))
COUNTED = (
    *AXES,
    Axis("update", "groups", (4,), lambda n: update(groups=n, samples=4)),
    Axis("update", "trees", (2,), lambda n: update(groups=n, branches=3)),
    Axis("update", "micro batches", (4,), lambda n: update(groups=n, samples=2, micro_batch_tokens=70)),
)
"""What benchmarks/growth.py measures, and more things that an update may have many of."""
START = {
    "update-prompt-length": 256, "update-windowed-prompt": 1024, "update-answer-length": 256, "update-vocabulary": 600,
    "update-layers": 2, "sampling-prompt-length": 64, "sampling-windowed-prompt": 64, "sampling-answer-length": 32,
    "sampling-turns": 4, "sampling-vocabulary": 600, "sampling-layers": 2, "update-groups": 4, "update-trees": 4,
    "update-micro-batches": 4,
}  # fmt: skip
"""First of three sizes, each twice the one before; 16 of everything else."""
BOUND = 1.15
"""What a doubling may add, over twice what the doubling before has added: for rounding up to multiples."""


class _Operations(TorchDispatchMode):
    """Operations of torch and the bytes of what they make."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.bytes, self.largest = 0, 0, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.count += 1
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        for tensor in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                size = tensor.numel() * tensor.element_size()
                self.bytes += size
                self.largest = max(self.largest, size)
        return result


def counted(work: Work) -> dict[str, int]:
    """Calls of Python functions, lines of them, operations of torch, bytes they make, and the largest tensor's."""
    work()
    with _Operations() as operations:
        work()
    calls = lines = 0

    def called(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal calls
        calls += 1
        return line if frame.f_code.co_filename.startswith(OURS) else None

    def line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return line

    gc.collect()
    gc.disable()
    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)
        gc.enable()
    return {
        "calls": calls,
        "lines": lines,
        "operations": operations.count,
        "bytes": operations.bytes,
        "largest": operations.largest,
    }


@pytest.mark.parametrize("axis", COUNTED, ids=lambda axis: axis.title)
def test_twice_the_work_costs_at_most_twice_as_much(axis: Axis) -> None:
    first = START.get(axis.title, 16)
    small, middle, large = (counted(axis.make(first * factor)) for factor in (1, 2, 4))
    for what in small:
        if what == "bytes" and axis.attention:
            continue  # scores of attention are made by its arithmetic; the largest tensor is still bounded
        # a cost has a part that does not grow; the largest tensor is one that does, or is not the largest for long
        before = middle[what] - (0 if what == "largest" else small[what])
        after = large[what] - (0 if what == "largest" else middle[what])
        assert after <= 2 * BOUND * max(before, 0) + 0.05 * middle[what], (what, small[what], middle[what], large[what])


def test_work_that_is_quadratic_is_found() -> None:
    def calling(size: int) -> Work:
        return lambda: sum(len(str(a)) for a in range(size) for b in map(_twice, range(size)))

    def looping(size: int) -> Work:
        return lambda: _in_pairs(size)

    for work, what in ((calling, "calls"), (looping, "lines")):
        with pytest.raises(AssertionError, match=what):
            test_twice_the_work_costs_at_most_twice_as_much(Axis("update", "squares", (1, 2), work))


def _twice(number: int) -> int:
    return 2 * number


def _in_pairs(size: int) -> int:
    found = 0
    for first in range(size):
        for second in range(size):
            found += first < second
    return found


def test_an_exponent_is_read_from_the_upper_half_and_judged_with_its_interval() -> None:
    sizes = [1, 2, 4, 8, 16, 32]
    assert slope(sizes, [9, 9, 9, 8**2, 16**2, 32**2]) == pytest.approx(2)
    found = {
        "sizes": sizes, "flops": [10 * n for n in sizes], "peak_bytes": [n**2 for n in sizes],
        "seconds": [[0.01 * n**1.5 * (1 + 0.001 * r) for r in range(5)] for n in sizes],
    }  # fmt: skip
    fit = fitted(found)
    assert fit["time"] == pytest.approx(1.5) and fit["arithmetic"] == pytest.approx(1)
    assert fit["time_above"] and fit["memory_above"] and fit["interval"] == pytest.approx([1.5, 1.5], abs=1e-3)
    found["seconds"] = [[0.01 * n * (1 + 0.2 * (-1) ** r * (n == 32)) for r in range(5)] for n in sizes]
    assert not fitted(found)["time_above"]
    with pytest.raises(ValueError, match="two repeats"):
        fitted({**found, "seconds": [runs[:1] for runs in found["seconds"]]})
