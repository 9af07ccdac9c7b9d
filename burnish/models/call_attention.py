"""The attention of a forest's calls (models/calls.py): branches against their ancestors, small trees under a mask.

Queries, keys and values are split once, by the calls, so that the backward pass of the split is linear in the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from burnish.models.calls import Branches, Call, Trees

_ROWS = 256
"""Queries of a block, where a mask of all of them would grow with the square of the tokens."""
_TILED_MASK_LIMIT = 1 << 22
"""Above this many mask elements the query heads of a group take turns instead of stacking under a tiled mask."""


@dataclass
class Attention:
    """The calls of a forest for one total width of the heads, with what they need in every layer."""

    calls: list[Call]
    positions: Tensor
    """Position along the path [N]."""
    seen: Callable[[int, int], Tensor]
    """Which tokens start:stop are one another's ancestors or themselves, bool [n, n]."""
    _masks: dict[tuple[object, ...], Tensor] = field(default_factory=dict)

    def masks(self) -> Iterator[Tensor]:
        """The masks that are kept from layer to layer."""
        yield from self._masks.values()

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None, softcap: float | None
    ) -> Tensor:
        """query [1, heads, N, D], key and value [1, kv_heads, N, D] -> [1, N, heads, D]."""
        heads, kv_heads = query.shape[1], key.shape[1]
        # Query heads that share a key head stand together: [kv_heads, repeats, N, D]
        grouped = query[0].unflatten(0, (kv_heads, heads // kv_heads))
        sizes = [call.stop - call.start for call in self.calls]
        if not sizes:
            return query.transpose(1, 2)
        queries, keys, values = grouped.split(sizes, dim=2), key[0].split(sizes, dim=1), value[0].split(sizes, dim=1)
        outputs = []
        for index, call in enumerate(self.calls):
            q, k, v = queries[index], keys[index], values[index]
            if isinstance(call, Trees):
                mask = self._mask(index, call, window, q)
                outputs.append(_attention(q[None], k[None], v[None], mask, scaling, softcap)[0])
            else:
                before = [[x[i] for i in call.ancestors] for x in (keys, values)]
                outputs.append(
                    self._branches(index, call, q, [*before[0], k], [*before[1], v], scaling, window, softcap)
                )
        return torch.cat(outputs, dim=2).flatten(0, 1)[None].transpose(1, 2)

    def _branches(
        self,
        index: int,
        call: Branches,
        q: Tensor,
        k: list[Tensor],
        v: list[Tensor],
        scaling: float,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        """q [kv_heads, repeats, n, D]; k and v of the ancestors and of the slots, [kv_heads, ., D] -> as q."""
        count, longest = len(call.lengths), max(call.lengths)
        even = count * longest == q.shape[2]
        if not even:
            padded, kept = self._padding(index, call)
            q, own_k, own_v = q.index_select(2, padded), k[-1].index_select(1, padded), v[-1].index_select(1, padded)
        else:
            padded, kept, own_k, own_v = None, None, k[-1], v[-1]
        q = q.unflatten(2, (count, longest)).permute(2, 0, 1, 3, 4)
        reach = None if window is None or call.deepest < window else window
        before = call.before if reach is None else min(call.before, reach - 1)
        keys, values = (
            _after(_last(ancestors, len(ancestors) - 1, before), own.unflatten(1, (count, longest)).transpose(0, 1))
            for ancestors, own in ((k, own_k), (v, own_v))
        )
        if reach is None and not before and softcap is None:
            out = _attention(q, keys, values, None, scaling, softcap)
        elif reach is None and longest <= _ROWS:
            out = _attention(q, keys, values, self._mask(index, call, None, q), scaling, softcap)
        else:
            out = self._in_blocks(before, q, keys, values, scaling, reach, softcap)
        out = out.permute(1, 2, 0, 3, 4).flatten(2, 3)
        return out if kept is None else out.index_select(2, kept)

    def _in_blocks(
        self, before: int, q: Tensor, k: Tensor, v: Tensor, scaling: float, window: int | None, softcap: float | None
    ) -> Tensor:
        """q [B, kv_heads, repeats, T, D] after `before` of its keys, a block of queries at a time, each with the keys
        in its reach. The blocks' masks are views of one: memory is linear in T, and with a window time is, too."""
        rows, total = min(_ROWS, window or _ROWS), q.shape[3]
        width = before + total if window is None else rows + window - 1
        mask = self._band(rows, width, window, q)
        # whole blocks, which a backward pass of slices would fill up to the length of all keys each
        cuts = [before, *(min(rows, total - start) for start in range(0, total, rows))]
        blocks = None if window is None else [x.split(cuts, dim=2) for x in (k, v)]
        parts = []
        for place, (start, queries) in enumerate(zip(range(0, total, rows), q.split(rows, dim=3), strict=True)):
            last = before + min(start + rows, total)
            count = last if window is None else min(last, last - before - start + window - 1)
            if blocks is None:
                near, theirs = k[:, :, :last], v[:, :, :last]
            else:
                near, theirs = (torch.cat(_last(x, place + 2, count), dim=2) for x in blocks)
            seen = mask[rows - (last - before - start) :, width - count :]
            parts.append(_attention(queries, near, theirs, seen, scaling, softcap))
        return torch.cat(parts, dim=3)

    def _band(self, rows: int, width: int, window: int | None, q: Tensor) -> Tensor:
        """0 where one of the last `rows` of `width` positions sees another and -inf where not, [rows, width]."""
        key = ("band", rows, width, window, q.dtype)
        if key not in self._masks:
            places = torch.arange(width, device=self.positions.device)
            distance = places[width - rows :, None] - places
            hidden = distance < 0 if window is None else (distance < 0) | (distance >= window)
            mask = torch.zeros(hidden.shape, dtype=q.dtype, device=hidden.device)
            self._masks[key] = mask.masked_fill_(hidden, -torch.inf)
        return self._masks[key]

    def _padding(self, index: int, call: Branches) -> tuple[Tensor, Tensor]:
        """Which token stands at each place of the padded slots, and the places that hold one."""
        if (index, "padded") not in self._masks:
            longest, starts = max(call.lengths), [0, *accumulate(call.lengths[:-1])]
            places = torch.arange(longest)
            lengths = torch.tensor(call.lengths)[:, None]
            padded = torch.tensor(starts)[:, None] + torch.minimum(places, lengths - 1)
            kept = torch.nonzero((places < lengths).flatten())[:, 0]
            device = self.positions.device
            self._masks[index, "padded"] = padded.flatten().to(device)
            self._masks[index, "kept"] = kept.to(device)
        return self._masks[index, "padded"], self._masks[index, "kept"]

    def _mask(self, index: int, call: Call, window: int | None, q: Tensor) -> Tensor:
        """0 where a query sees a key and -inf where not, [T, K] in the queries' type; kept for the following layers.

        Stacked for the query heads of a group, [repeats * T, K], where that is not too large.
        """
        window = None if window is None or call.deepest < window else window
        repeats = q.shape[-3]
        key = (index, window, q.dtype, repeats)
        if key not in self._masks:
            if isinstance(call, Trees):
                positions = self.positions[call.start : call.stop]
                distance = positions[:, None] - positions
                visible = self.seen(call.start, call.stop) & (distance >= 0)
            else:
                places = torch.arange(call.before + max(call.lengths), device=self.positions.device)
                distance = places[call.before :, None] - places
                visible = distance >= 0
            if window is not None:
                visible &= distance < window
            mask = torch.zeros(visible.shape, dtype=q.dtype, device=visible.device).masked_fill_(~visible, -torch.inf)
            if repeats > 1 and repeats * mask.numel() <= _TILED_MASK_LIMIT:
                mask = mask.repeat(repeats, 1)
            self._masks[key] = mask
        return self._masks[key]


def _last(parts: Sequence[Tensor], stop: int, count: int) -> list[Tensor]:
    """The last `count` positions of keys or values [..., ., D] that lie in a row in parts :stop."""
    kept: list[Tensor] = []
    while count > 0 and stop > 0:
        stop -= 1
        kept.append(parts[stop][..., max(0, parts[stop].shape[-2] - count) :, :])
        count -= parts[stop].shape[-2]
    return kept[::-1]


def _after(before: list[Tensor], own: Tensor) -> Tensor:
    """Keys or values [kv_heads, ., D] that every branch sees, then its own [B, kv_heads, T, D]."""
    if not before:
        return own
    shared = before[0] if len(before) == 1 else torch.cat(before, dim=1)
    return torch.cat([shared.expand(len(own), *shared.shape), own], dim=2)


def _attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scaling: float, softcap: float | None) -> Tensor:
    """q [B, kv_heads, repeats, T, D], k and v [B, kv_heads, K, D] -> q's shape; causal where there is no mask."""
    repeats, count = q.shape[2:4]
    stacked = mask is not None and len(mask) == repeats * count
    if softcap is not None and mask is not None:
        scores = torch.einsum("bhrtd,bhkd->bhrtk", q, k) * scaling
        scores = softcap * torch.tanh(scores / softcap) + (mask.unflatten(0, (repeats, count)) if stacked else mask)
        weights = torch.softmax(scores, dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
        return torch.einsum("bhrtk,bhkd->bhrtd", weights.to(v.dtype), v)
    if stacked:
        out = F.scaled_dot_product_attention(q.flatten(2, 3), k, v, attn_mask=mask, scale=scaling)
        return out.unflatten(2, (repeats, count))
    parts = [
        F.scaled_dot_product_attention(q[:, :, r], k, v, attn_mask=mask, is_causal=mask is None, scale=scaling)
        for r in range(repeats)
    ]
    return torch.stack(parts, dim=2)
