"""Work that doubles costs no more than twice as much: counted, not timed, so that it holds on every machine.

benchmarks/growth.py times the same work further out; docs/growth.md has what it measured.
"""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.growth import fitted, slope
from benchmarks.growth_work import AXES, Axis, Work

START = {
    "update-prompt-length": 256, "update-windowed-prompt": 1024, "update-answer-length": 256, "update-vocabulary": 600,
    "update-layers": 2, "sampling-prompt-length": 64, "sampling-windowed-prompt": 64, "sampling-answer-length": 32,
    "sampling-turns": 4, "sampling-vocabulary": 600, "sampling-layers": 2,
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
    calls = 0

    def called(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    gc.collect()
    gc.disable()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return {"calls": calls, "operations": operations.count, "bytes": operations.bytes, "largest": operations.largest}


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.title)
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
    def quadratic(size: int) -> Work:
        return lambda: sum(len(str(a)) for a in range(size) for b in map(_twice, range(size)))

    axis = Axis("update", "squares", (1, 2), quadratic)
    with pytest.raises(AssertionError, match="calls"):
        test_twice_the_work_costs_at_most_twice_as_much(axis)


def _twice(number: int) -> int:
    return 2 * number


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
