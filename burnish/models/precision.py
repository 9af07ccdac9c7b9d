"""Compute types: their names, and a quick measurement of which one pays on this machine."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache

import torch

from burnish.errors import InputError
from burnish.models.devices import CPU, wait

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float64": torch.float64,
}
"""The compute types by name."""

MARGIN = 1.3
"""bfloat16 rounds to 8 bits, so it is taken only where matrix products are at least this much faster."""

_SHAPE = (512, 576, 1536)  # tokens, width and inner width of a 135M-parameter model's largest product
_REPEATS = 5


@dataclass(frozen=True)
class DtypeChoice:
    """The compute type chosen by measurement, and a line for the user that says why."""

    dtype: torch.dtype
    reason: str


def as_dtype(name: str) -> torch.dtype:
    """The torch type of a name. Raises InputError with the known names."""
    if name not in DTYPES:
        raise InputError(f"unknown dtype {name!r}: choose one of auto, {', '.join(DTYPES)}")
    return DTYPES[name]


@cache
def choose_dtype(device: torch.device | None = None) -> DtypeChoice:
    """float32 or bfloat16, by timing a matrix product in both; measured once per process and device."""
    place = device or CPU
    slow, fast = _seconds(torch.float32, place), _seconds(torch.bfloat16, place)
    speedup = slow / fast
    dtype = torch.bfloat16 if speedup >= MARGIN else torch.float32
    name = str(dtype).removeprefix("torch.")
    return DtypeChoice(dtype, f"{name} (bfloat16 matrix products run at {speedup:.2f}x the speed of float32 here)")


def _seconds(dtype: torch.dtype, device: torch.device) -> float:
    """Seconds of the fastest of a few products: the others were disturbed."""
    tokens, width, inner = _SHAPE
    left, right = (
        torch.ones(tokens, width, dtype=dtype, device=device),
        torch.ones(inner, width, dtype=dtype, device=device),
    )
    best = float("inf")
    for _ in range(_REPEATS + 1):  # the first one warms up and is never the fastest
        wait(device)
        start = time.perf_counter()
        torch.matmul(left, right.T)
        wait(device)
        best = min(best, time.perf_counter() - start)
    return best
