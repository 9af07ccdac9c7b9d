"""Prefix-shared forests: token trees of any depth in one forward pass, every prefix computed once.

The flat token order is tree by tree, slot by slot. A slot (a trace node) attends to its ancestors' keys and causally
to its own. On a CPU each slot, or each small tree under one mask, is one scaled-dot-product call, whichever costs
less; on a GPU the same layout becomes one FlexAttention block mask (models/flex.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

_CALL_COST = 40_000
"""What one attention call costs on a CPU beside its arithmetic, in query-key pairs of one layer (measured order)."""
_TILED_MASK_LIMIT = 1 << 22
"""Above this many mask elements the query heads of a group take turns instead of stacking under a tiled mask."""


@dataclass(frozen=True)
class Slot:
    """Tokens `start:stop` of the flat order; `parent` is a slot index or -1; the first token sits at `position`."""

    start: int
    stop: int
    parent: int
    position: int

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class _Call:
    """One attention call: queries `start:stop`, keys from the listed slices of the flat order."""

    start: int
    stop: int
    keys: tuple[tuple[int, int], ...]
    deepest: int
    """Largest position along a path among the queries."""
    causal_root: bool
    """Keys are exactly the queries, in order along one path: plain causal attention."""


def _whole(start: int, stop: int, deepest: int) -> _Call:
    """One call over whole trees under a mask."""
    return _Call(start, stop, ((start, stop),), deepest, causal_root=False)


def _masked_cost(tokens: int) -> int:
    return tokens**2 + _CALL_COST


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
        self._calls = self._plan()
        self._masks: dict[tuple[int, int | None], Tensor] = {}
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

    # -- planning ------------------------------------------------------------------------------------------------

    def _plan(self) -> list[_Call]:
        """One call per slot, per tree, or per run of small neighbouring trees, whichever is estimated to cost least."""
        calls: list[_Call] = []
        roots = [i for i, s in enumerate(self.slots) if s.parent < 0]
        open_cost, open_start = 0, -1  # of the last call, while it is one over whole trees
        for root, end in zip(roots, [*roots[1:], len(self.slots)], strict=True):
            start, stop = self.slots[root].start, self.slots[end - 1].stop
            separate, cost = self._separate_calls(root, end)
            if not separate:
                continue
            if open_start >= 0 and (joined := _masked_cost(stop - open_start)) < open_cost + cost:
                calls[-1] = _whole(open_start, stop, max(calls[-1].deepest, *(c.deepest for c in separate)))
                open_cost = joined
            elif _masked_cost(stop - start) < cost:
                calls.append(_whole(start, stop, max(c.deepest for c in separate)))
                open_cost, open_start = _masked_cost(stop - start), start
            else:
                calls.extend(separate)
                open_cost, open_start = cost, start if len(separate) == 1 else -1
            if open_start >= 0 and stop - open_start >= math.isqrt(_CALL_COST):
                open_start = -1  # pairs grow with the square: beyond this length a further tree costs more than a call
        return calls

    def _separate_calls(self, root: int, end: int) -> tuple[list[_Call], int]:
        """One call per slot of a tree, and what they cost in query-key pairs."""
        separate: list[_Call] = []
        pairs = 0
        for index in range(root, end):
            slot = self.slots[index]
            if not len(slot):
                continue
            path = [self.slots[a] for a in self.ancestors(index)]
            keys = tuple((s.start, s.stop) for s in path if len(s))
            deepest = slot.position + len(slot) - 1
            separate.append(_Call(slot.start, slot.stop, keys, deepest, causal_root=len(keys) == 1))
            pairs += len(slot) * sum(len(s) for s in path)
        return separate, pairs + _CALL_COST * len(separate)

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
        if query.is_cuda:
            from burnish.models.flex import flex_attend

            return flex_attend(self, query, key, value, scaling=scaling, window=window, softcap=softcap)
        heads, kv_heads, width = query.shape[1], key.shape[1], query.shape[-1]
        # Query heads that share a key head stand together: [kv_heads, repeats, N, D]
        grouped = query[0].reshape(kv_heads, heads // kv_heads, -1, width)
        outputs = []
        for index, call in enumerate(self._calls):
            q = grouped[:, :, call.start : call.stop]
            k, v = (torch.cat([x[0, :, a:b] for a, b in call.keys], dim=1) for x in (key, value))
            outputs.append(self._call(index, call, q, k, v, scaling, window, softcap))
        joined = torch.cat(outputs, dim=2) if outputs else grouped
        return joined.reshape(1, heads, -1, joined.shape[-1]).transpose(1, 2)

    def _call(
        self,
        index: int,
        call: _Call,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        scaling: float,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        """q [kv_heads, repeats, T, D], k and v [kv_heads, K, D] -> [kv_heads, repeats, T, D]."""
        kv_heads, repeats, count, width = q.shape
        fits = window is None or call.deepest < window
        if call.causal_root and fits and softcap is None:
            parts = [
                F.scaled_dot_product_attention(q[None, :, r], k[None], v[None], is_causal=True, scale=scaling)[0]
                for r in range(repeats)
            ]
            return torch.stack(parts, dim=1)
        mask = self._mask(index, call, None if fits else window)
        if softcap is not None:
            scores = torch.einsum("hrtd,hkd->hrtk", q, k) * scaling
            scores = (softcap * torch.tanh(scores / softcap)).masked_fill(~mask, -torch.inf)
            weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
            return torch.einsum("hrtk,hkd->hrtd", weights.to(v.dtype), v)
        if repeats * mask.numel() <= _TILED_MASK_LIMIT:
            stacked = q.reshape(kv_heads, repeats * count, width)
            tiled = mask if repeats == 1 else mask.repeat(repeats, 1)
            out = F.scaled_dot_product_attention(stacked[None], k[None], v[None], attn_mask=tiled, scale=scaling)
            return out[0].reshape(kv_heads, repeats, count, -1)
        parts = [
            F.scaled_dot_product_attention(q[None, :, r], k[None], v[None], attn_mask=mask, scale=scaling)[0]
            for r in range(repeats)
        ]
        return torch.stack(parts, dim=1)

    def _mask(self, index: int, call: _Call, window: int | None) -> Tensor:
        """Which keys each query of a call sees, bool [T, K]; kept for the following layers."""
        if (index, window) not in self._masks:
            spans = [torch.arange(a, b) for a, b in call.keys]
            keys = torch.cat(spans)
            queries = torch.arange(call.start, call.stop)
            positions = self.positions.cpu()
            distance = positions[queries][:, None] - positions[keys][None]
            mask = distance >= 0
            if window is not None:
                mask &= distance < window
            if len(call.keys) == 1 and not call.causal_root:  # a whole tree: siblings must not see each other
                slots = self.slot_of_token()
                mask &= self.ancestry()[slots[queries]][:, slots[keys]]
            self._masks[index, window] = mask.to(self.positions.device)
        return self._masks[index, window]
