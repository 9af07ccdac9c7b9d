"""Prefix-shared forests: token trees of any depth in one forward pass, every prefix computed once.

The flat token order is tree by tree, slot by slot. A slot (a trace node) attends to its ancestors' keys and causally
to its own. On a CPU sibling slots are one batched call, or small trees one under a mask (models/calls.py); on a GPU the
same layout becomes one FlexAttention block mask (models/flex.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from burnish.models.call_attention import Attention
from burnish.models.calls import plan
from burnish.models.devices import flex_serves


@dataclass(frozen=True)
class Slot:
    """Tokens `start:stop` of the flat order; `parent` is a slot index or -1; the first token sits at `position`."""

    start: int
    stop: int
    parent: int
    position: int

    def __len__(self) -> int:
        return self.stop - self.start


class Forest:
    """A batch of token trees laid out flat; an AttentionLayout. Build it with `Forest.build`."""

    def __init__(self, tokens: Tensor, positions: Tensor, slots: Sequence[Slot]) -> None:
        self.tokens = tokens
        """Token ids [N]."""
        self.positions = positions
        """Position along the path [N]."""
        self.slots = list(slots)
        self.layers_seen: set[int] = set()
        self.windows_seen: set[int | None] = set()
        self._attention: dict[int, Attention] = {}
        self._flex: dict[int | None, object] = {}

    @classmethod
    def build(
        cls, runs: Sequence[Tensor], parents: Sequence[int], *, device: torch.device | str | None = None
    ) -> Forest:
        """Lay out token runs [T_i], each continuing from run `parents[i]` (-1: a root).

        A tree's runs must stand together with every parent before its children. Raises ValueError otherwise.
        """
        slots: list[Slot] = []
        start = 0
        for index, (run, parent) in enumerate(zip(runs, parents, strict=True)):
            if not -1 <= parent < index:
                raise ValueError(f"run {index} continues from run {parent}, which does not stand before it")
            position = 0 if parent < 0 else slots[parent].position + len(slots[parent])
            slots.append(Slot(start, start + len(run), parent, position))
            start += len(run)
        tokens = torch.cat([run.long() for run in runs]) if runs else torch.zeros(0, dtype=torch.long)
        places = [torch.arange(s.position, s.position + len(s)) for s in slots]
        positions = torch.cat(places) if places else torch.zeros(0, dtype=torch.long)
        forest = cls(tokens.to(device), positions.to(device), slots)
        forest._check_contiguous()
        return forest

    def _check_contiguous(self) -> None:
        root = -1
        for index, slot in enumerate(self.slots):
            if slot.parent < 0:
                root = index
            elif slot.parent < root:
                raise ValueError(f"run {index} belongs to an earlier tree: the runs of a tree must stand together")

    def __len__(self) -> int:
        return len(self.tokens)

    def ancestors(self, slot: int) -> list[int]:
        """Slot indices from the root to `slot`, itself included."""
        path = []
        while slot >= 0:
            path.append(slot)
            slot = self.slots[slot].parent
        return path[::-1]

    def predecessor(self, slot: int) -> int:
        """Flat index of the token before the slot's first one; -1 when nothing stands before it."""
        for ancestor in reversed(self.ancestors(slot)[:-1]):
            if len(self.slots[ancestor]):
                return self.slots[ancestor].stop - 1
        return -1

    # -- who sees whom -------------------------------------------------------------------------------------------

    def slot_of_token(self) -> Tensor:
        """Slot index of every token [N]."""
        lengths = torch.tensor([len(s) for s in self.slots], dtype=torch.long)
        return torch.repeat_interleave(torch.arange(len(self.slots)), lengths)

    def ancestry(self) -> Tensor:
        """Whether slot j is slot i or one of its ancestors, bool [slots, slots]."""
        table = torch.zeros(len(self.slots), len(self.slots), dtype=torch.bool)
        for index, slot in enumerate(self.slots):
            if slot.parent >= 0:
                table[index] = table[slot.parent]
            table[index, index] = True
        return table

    def seen(self, start: int, stop: int) -> Tensor:
        """Whether token j of start:stop stands on the path to token i, whole slots of it, bool [n, n]."""
        inside = [i for i, s in enumerate(self.slots) if s.start >= start and s.stop <= stop and len(s)]
        row_of = {index: row for row, index in enumerate(inside)}
        table = torch.eye(len(inside), dtype=torch.bool)
        for row, index in enumerate(inside):
            parent = self.slots[index].parent
            while parent >= 0 and parent not in row_of:  # an empty slot hands on to its own parent
                parent = self.slots[parent].parent
            if parent >= 0:
                table[row] |= table[row_of[parent]]
        lengths = torch.tensor([len(self.slots[i]) for i in inside])
        rows = torch.repeat_interleave(torch.arange(len(inside)), lengths)
        return table[rows][:, rows].to(self.positions.device)

    # -- attention -----------------------------------------------------------------------------------------------

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scaling: float,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        """See AttentionLayout.attend."""
        self.layers_seen.add(layer)
        self.windows_seen.add(window)
        if flex_serves(query, value):
            from burnish.models.flex import flex_attend

            return flex_attend(self, query, key, value, scaling=scaling, window=window, softcap=softcap)
        return self.attention(query.shape[1] * query.shape[-1]).attend(query, key, value, scaling, window, softcap)

    def attention(self, width: int) -> Attention:
        """The calls for heads of `width` columns altogether, planned when first asked for."""
        if width not in self._attention:
            self._attention[width] = Attention(plan(self.slots, width), self.positions, self.seen)
        return self._attention[width]

    def mask_bytes(self) -> int:
        """Bytes of the masks that the layers seen so far share."""
        return sum(mask.nbytes for attention in self._attention.values() for mask in attention.masks())
