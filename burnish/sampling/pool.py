"""Rows that decode together: their static buffers, and how the prefixes they share lie in the attention products."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from burnish.sampling.memory import Block, ByteBudget, Cache, CacheShape, Layers, Own, Prefix

_ROWS, _TOKENS = 8, 32
"""The buffers of a pool hold a multiple of this many rows and tokens."""


def rounded(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step


@dataclass(eq=False)
class Place:
    """A row's place in a pool."""

    prefix: Prefix | None
    length: int
    """Own keys written so far."""
    index: int = -1
    owner: Any = None
    """The engine's row."""

    @property
    def base(self) -> int:
        return 0 if self.prefix is None else self.prefix.length


class Pool:
    """Rows that decode together: own keys and values [rows, kv_heads, width, D] per layer, rows 0:len(places) in use.

    With `width` and `stack` given every attention product of the pool keeps its shape whatever else is in the pool
    (deterministic mode): all own keys are read, and a prefix serves exactly `stack` rows at a time, padded.
    """

    def __init__(
        self, shape: CacheShape, budget: ByteBudget, width: int | None = None, stack: int | None = None
    ) -> None:
        self.shape, self.budget = shape, budget
        self.fixed, self.stack = width, stack
        self.places: list[Place] = []
        self.keys: Layers = []
        self.values: Layers = []
        self.changed = True
        """Rows came or went since the attention was last planned."""
        self._held: weakref.finalize | None = None

    @property
    def size(self) -> tuple[int, int]:
        """Rows and tokens the buffers have room for."""
        return (self.keys[0].shape[0], self.keys[0].shape[2]) if self.keys else (0, 0)

    def size_for(self, rows: int, tokens: int) -> tuple[int, int]:
        """The size of buffers that hold this many rows of this many own tokens, and no less than now."""
        return max(self.size[0], rounded(rows, _ROWS)), self.fixed or max(self.size[1], rounded(tokens, _TOKENS))

    def bytes_of(self, size: tuple[int, int]) -> int:
        """Bytes of buffers of a size."""
        return size[0] * size[1] * self.shape.token_bytes

    def reserve(self, rows: int, tokens: int, most: int) -> None:
        """Grow the buffers where they are too small for the tokens, by a quarter at least but not beyond `most`."""
        if tokens > self.size[1]:
            tokens = min(max(tokens, self.size[1] * 5 // 4), max(tokens, most))
        size = self.size_for(rows, tokens)
        if size == self.size:
            return
        used, width = len(self.places), self.size[1]
        if not self.keys:
            self.keys, self.values = self.shape.zeros(*size)
        else:
            for layers in (self.keys, self.values):
                for layer, old in enumerate(layers):  # one at a time: old and new never stand side by side in full
                    layers[layer] = old.new_zeros(size[0], old.shape[1], size[1], old.shape[3])
                    layers[layer][:used, :, :width] = old[:used]
        if self._held is not None:
            self._held()
        self._held = self.budget.hold(self, self.keys, self.values)

    def drop(self) -> None:
        """Give the buffers up."""
        if self._held is not None:
            self._held()
        self.keys, self.values, self._held = [], [], None

    def add(self, cache: Cache, owner: Any = None) -> Place:
        """Give a row a place, for which there must be room, and copy its own keys there."""
        length = 0 if cache.own is None else cache.own.length
        place = Place(cache.prefix, length, len(self.places), owner)
        if cache.own is not None:
            for mine, theirs in zip((*self.keys, *self.values), (*cache.own.keys, *cache.own.values), strict=True):
                mine[place.index, :, :length] = theirs
        self.places.append(place)
        self.changed = True
        return place

    def cache(self, place: Place) -> Cache | None:
        """A copy of what a row has, for its session; None when there is no room for it."""
        if self.budget.used + place.length * self.shape.token_bytes > self.budget.limit:
            return None
        keys, values = (
            [x[place.index, :, : place.length].clone() for x in layers] for layers in (self.keys, self.values)
        )
        cache = Cache(place.prefix, Own(keys, values) if place.length else None)
        self.budget.hold(cache, keys, values)
        return cache

    def remove(self, places: Sequence[Place]) -> None:
        """Take rows out; rows at the end move into the holes."""
        leaving = {place.index for place in places}
        kept = len(self.places) - len(leaving)
        holes = sorted(i for i in leaving if i < kept)
        movers = [place for place in self.places[kept:] if place.index not in leaving]
        for hole, place in zip(holes, movers, strict=True):
            for buffer in (*self.keys, *self.values):
                buffer[hole, :, : place.length] = buffer[place.index, :, : place.length]
            self.places[hole], place.index = place, hole
        del self.places[kept:]
        self.changed = True


@dataclass
class Sharing:
    """How the rows of one block lie in the attention products of a step."""

    block: Block
    gather: Tensor
    """Pool row [G * R] whose query stands at each place of the stack; padding repeats a row."""
    place: Tensor
    """Place in the stack [rows of the block]."""
    rows: Tensor
    """Pool row [rows of the block]."""
    lengths: Tensor = field(repr=False)
    """Length of the prefix of each row [rows of the block]."""
    whole: bool = False
    """The stack is exactly the pool's rows in order."""


def plan(pool: Pool) -> list[Sharing]:
    """Group the rows of a pool by block and prefix. Blocks that are mostly idle are first left behind."""
    users: dict[Block, dict[Prefix, list[int]]] = {}
    for place in pool.places:
        if place.prefix is not None:
            users.setdefault(place.prefix.block, {}).setdefault(place.prefix, []).append(place.index)
    for block, prefixes in list(users.items()):
        if 2 * len(prefixes) <= len(block) > 1:
            Prefix.gather(list(prefixes))
            users[next(iter(prefixes)).block] = users.pop(block)
    sharings = []
    for block, prefixes in users.items():
        high = pool.stack or max(len(members) for members in prefixes.values())
        for start in range(0, max(len(members) for members in prefixes.values()), high):
            part = {prefix: members[start : start + high] for prefix, members in prefixes.items()}
            sharings.append(_sharing(len(pool.places), block, high, part))
    return sharings


def _sharing(count: int, block: Block, high: int, prefixes: dict[Prefix, list[int]]) -> Sharing:
    """The rows of some prefixes, at most `high` of each, in a pool of `count` rows."""
    gather = torch.zeros(len(block), high, dtype=torch.long)
    rows, place, lengths = [], [], []
    for prefix, members in prefixes.items():
        gather[prefix.index, : len(members)] = torch.tensor(members, dtype=torch.long)
        rows += members
        place += [prefix.index * high + i for i in range(len(members))]
        lengths += [prefix.length] * len(members)
    gather = gather.flatten()
    whole = gather.tolist() == rows == list(range(count))
    device = block.keys[0].device
    at = [torch.tensor(x, dtype=torch.long, device=device) for x in (place, rows, lengths)]
    return Sharing(block, gather.to(device), *at, whole=whole)
