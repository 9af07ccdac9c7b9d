"""Random numbers as a pure function of where they are used.

A draw is a hash of (run seed, task, sample, position), so it depends neither on the order in which work finishes
nor on what shared its batch: a resumed or re-batched run draws the same numbers. The mixer is SplitMix64's
finaliser (Steele, Lea, Flood 2014), applied once per coordinate.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

UInt64Like = int | npt.ArrayLike


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * _MIX_1
        x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return x ^ (x >> np.uint64(31))


def stable_hash(text: str) -> int:
    """A 64-bit integer from text, the same on every machine and in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=8).digest(), "little")


def counter_hash(*coordinates: UInt64Like) -> npt.NDArray[np.uint64]:
    """Hash integer coordinates (broadcast against each other) to uint64. Negative integers wrap modulo 2**64."""
    state: npt.NDArray[np.uint64] = np.zeros((), dtype=np.uint64)
    for coordinate in coordinates:
        if isinstance(coordinate, int):
            value = np.asarray(coordinate % (1 << 64), dtype=np.uint64)
        else:
            value = np.asarray(coordinate).astype(np.uint64)
        with np.errstate(over="ignore"):
            state = _mix((state ^ _mix(value + _GAMMA)) + _GAMMA)
    return state


def counter_uniform(*coordinates: UInt64Like) -> npt.NDArray[np.float64]:
    """Uniform numbers in the open interval (0, 1), one per broadcast coordinate tuple."""
    bits = counter_hash(*coordinates) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def counter_generator(*coordinates: int) -> np.random.Generator:
    """A numpy generator for work that needs many numbers (a shuffle, a generated data set)."""
    return np.random.Generator(np.random.Philox(key=int(counter_hash(*coordinates))))
