"""Where keys and values live: prefixes that several rows share, and the rows' own keys in static buffers.

A row attends to at most one shared prefix and to keys of its own. Prefixes computed in one forward pass are stacked in
one block, so that decoding reads them with one matrix product; a prefix lives as long as something refers to it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Layers = list[Tensor]
"""One tensor per layer; the layers may differ in heads and head size."""


class ByteBudget:
    """Counts the bytes of live key/value tensors."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.peak = 0

    def hold(self, owner: object, *tensors: Layers) -> weakref.finalize:
        """Count the tensors for as long as `owner` lives, or until the returned finalizer is called."""
        count = sum(x.numel() * x.element_size() for layers in tensors for x in layers)
        self.used += count
        self.peak = max(self.peak, self.used)
        return weakref.finalize(owner, self._free, count)

    def _free(self, count: int) -> None:
        self.used -= count


@dataclass(frozen=True)
class CacheShape:
    """Key and value shapes (kv_heads, head size) of every layer."""

    keys: tuple[tuple[int, int], ...]
    values: tuple[tuple[int, int], ...]
    dtype: torch.dtype
    device: torch.device

    @property
    def token_bytes(self) -> int:
        """Bytes of one token's keys and values."""
        return sum(h * d for h, d in (*self.keys, *self.values)) * self.dtype.itemsize

    def zeros(self, rows: int, width: int) -> tuple[Layers, Layers]:
        """Zero keys and values, [rows, kv_heads, width, D] per layer: padding must be finite, as 0 * NaN is NaN."""
        keys, values = (
            [torch.zeros(rows, h, width, d, dtype=self.dtype, device=self.device) for h, d in shapes]
            for shapes in (self.keys, self.values)
        )
        return keys, values


@dataclass(eq=False)
class Own:
    """Keys and values [kv_heads, T, D] per layer that belong to one row or session."""

    keys: Layers
    values: Layers

    @property
    def length(self) -> int:
        return self.keys[0].shape[1]

    def followed_by(self, other: Own) -> Own:
        """Both runs in one."""
        keys, values = (
            [torch.cat(pair, dim=1) for pair in zip(a, b, strict=True)]
            for a, b in ((self.keys, other.keys), (self.values, other.values))
        )
        return Own(keys, values)


class Block:
    """Prefixes side by side: keys and values [G, kv_heads, T, D] per layer, padded with zeros to the longest."""

    def __init__(self, runs: Sequence[Own], shape: CacheShape, budget: ByteBudget, width: int | None = None) -> None:
        self.shape, self.budget = shape, budget
        self.width = max(run.length for run in runs) if width is None else width
        self.keys, self.values = shape.zeros(len(runs), self.width)
        for index, run in enumerate(runs):
            for mine, theirs in zip((*self.keys, *self.values), (*run.keys, *run.values), strict=True):
                mine[index, :, : run.length] = theirs
        budget.hold(self, self.keys, self.values)

    def __len__(self) -> int:
        return self.keys[0].shape[0]


class Prefix:
    """A run of tokens at positions 0:length whose keys several rows share. It may move to another block."""

    def __init__(self, block: Block, index: int, length: int) -> None:
        self.block, self.index, self.length = block, index, length

    def run(self) -> Own:
        """Views of the prefix's keys and values."""
        keys, values = (
            [x[self.index, :, : self.length] for x in layers] for layers in (self.block.keys, self.block.values)
        )
        return Own(keys, values)

    @staticmethod
    def gather(prefixes: Sequence[Prefix]) -> None:
        """Move prefixes of one block into a block without the others, whose keys decoding then need not read."""
        old = prefixes[0].block
        block = Block([p.run() for p in prefixes], old.shape, old.budget, old.width)
        for index, prefix in enumerate(prefixes):
            prefix.block, prefix.index = block, index


@dataclass(eq=False)
class Cache:
    """What is kept of a sequence: an optional shared prefix, then keys of its own."""

    prefix: Prefix | None
    own: Own | None

    @property
    def base(self) -> int:
        """Position of the first own key."""
        return 0 if self.prefix is None else self.prefix.length

    @property
    def length(self) -> int:
        return self.base + (0 if self.own is None else self.own.length)

    def run(self) -> Own | None:
        """All keys and values of the sequence; None when there are none."""
        parts = [part for part in (self.prefix and self.prefix.run(), self.own) if part is not None]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else parts[0].followed_by(parts[1])
