"""The forest's attention by FlexAttention, for GPUs (FlexAttention has no backward pass on a CPU).

The block mask is made from the slots, a table of slots x blocks: torch's own way tries every pair of tokens, which for
16,384 of them takes gigabytes and grows with the square. Unverified on a GPU; docs/gpu.md says what was checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from burnish.models.devices import on_gpu

if TYPE_CHECKING:
    from burnish.models.forest import Forest

MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Table = npt.NDArray[np.bool_]

BLOCK = 128
"""Queries and keys of a block: the kernels skip a block that nothing is seen of, and mask none that is seen whole."""

_NEVER = np.iinfo(np.int64).max // 4


def mask_function(forest: Forest, window: int | None) -> MaskFunction:
    """Whether query q sees key k: k's slot is q's slot or its ancestor, k is not later, and k is inside the window."""
    device = forest.positions.device
    slot_of = forest.slot_of_token().to(device)
    ancestry = forest.ancestry().to(device)
    positions = forest.positions
    # read by the compiled kernel like the other tables; a Python number would be compiled in, or become a symbol
    reach = torch.tensor([_NEVER if window is None else window], device=device)

    def visible(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        distance = positions[q] - positions[k]
        return ancestry[slot_of[q], slot_of[k]] & (distance >= 0) & (distance < reach[batch])

    return visible


def block_mask(forest: Forest, window: int | None) -> BlockMask:
    """The block mask of a forest, made once per window and kept for the following layers."""
    kept: dict[Any, Any] = forest._flex
    if window not in kept:
        device, count = forest.positions.device, len(forest)
        some, whole = block_tables(forest, window)
        part = [_listed(table, device) for table in (some & ~whole, whole)]
        kept[window] = BlockMask.from_kv_blocks(
            *part[0], *part[1], BLOCK_SIZE=BLOCK, mask_mod=mask_function(forest, window), seq_lengths=(count, count)
        )
    return kept[window]


def _listed(table: Table, device: torch.device) -> tuple[Tensor, Tensor]:
    """How many blocks of keys each block of queries has [1, 1, Q], and which they are, those first [1, 1, Q, K]."""
    order = np.argsort(~table, axis=1, kind="stable")
    counts = torch.from_numpy(table.sum(axis=1)).to(device, torch.int32)
    return counts[None, None], torch.from_numpy(order).to(device, torch.int32)[None, None]


def block_tables(forest: Forest, window: int | None) -> tuple[Table, Table]:
    """Of which blocks of keys each block of queries may see something, and of which everything, bool [blocks, blocks].

    The first table has every block of which something is seen, and with a window a few more.
    """
    blocks = -(-len(forest) // BLOCK)
    some, whole = np.zeros((blocks, blocks), dtype=bool), np.ones((blocks, blocks), dtype=bool)
    sizes = np.full(blocks, BLOCK)
    seen: list[_Path] = []
    for slot in forest.slots:
        path = _Path.of(
            seen[slot.parent] if slot.parent >= 0 else _Path.empty(blocks), slot.start, len(slot), slot.position
        )
        seen.append(path)
        for block in range(slot.start // BLOCK, -(-slot.stop // BLOCK) if len(slot) else 0):
            first = slot.position + max(0, block * BLOCK - slot.start)
            last = slot.position + min(slot.stop, (block + 1) * BLOCK) - slot.start - 1
            reach = _NEVER if window is None else window
            mine = (path.count > 0) & (first - path.last < reach)
            mine[block + 1 :] = False
            all_of = (path.count == sizes) & (last - path.first < reach)
            all_of[block:] = False  # in its own block a query sees no later key
            some[block] |= mine
            whole[block] &= all_of
    return some, whole & some


class _Path:
    """The keys on the way to a slot and in it, by block: how many, and the first and last position."""

    def __init__(self, count: npt.NDArray[np.int64], first: npt.NDArray[np.int64], last: npt.NDArray[np.int64]) -> None:
        self.count, self.first, self.last = count, first, last

    @classmethod
    def empty(cls, blocks: int) -> _Path:
        return cls(np.zeros(blocks, np.int64), np.full(blocks, _NEVER), np.full(blocks, -_NEVER))

    @classmethod
    def of(cls, parent: _Path, start: int, length: int, position: int) -> _Path:
        """The parent's, and `length` keys more from flat index `start`, the first of them at `position`."""
        count, first, last = parent.count.copy(), parent.first.copy(), parent.last.copy()
        if length:
            these = np.arange(start // BLOCK, -(-(start + length) // BLOCK))
            begin = np.maximum(these * BLOCK, start)
            end = np.minimum((these + 1) * BLOCK, start + length)
            count[these] += end - begin
            first[these] = np.minimum(first[these], position + begin - start)
            last[these] = np.maximum(last[these], position + end - start - 1)
        return cls(count, first, last)


@cache
def _capped(cap: float, device: torch.device) -> Callable[..., Tensor]:
    """A soft cap as a change of scores; the same function for the same cap, which its kernel reads from memory."""
    limit = torch.tensor([cap], device=device)

    def capped(score: Tensor, batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return limit[batch] * torch.tanh(score / limit[batch])

    return capped


# in one graph: beyond eight compiled forms torch would otherwise go on uncompiled, with every score in memory
_compiled = torch.compile(flex_attention, dynamic=True, fullgraph=True)


def flex_attend(
    forest: Forest,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scaling: float,
    window: int | None,
    softcap: float | None,
) -> Tensor:
    """As AttentionLayout.attend. Compiled on a GPU; run eagerly elsewhere, which is only good for checking."""
    run = _compiled if on_gpu(query.device) else flex_attention
    usual = query.shape[-1] ** -0.5
    if not math.isclose(scaling, usual):
        query = query * (scaling / usual)  # a scale of its own would become a symbol that no kernel is tried with
    output = run(
        query, key, value, score_mod=None if softcap is None else _capped(softcap, query.device),
        block_mask=block_mask(forest, window), enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    return output.transpose(1, 2)
