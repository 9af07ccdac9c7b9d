"""The engine's attention layouts: prefilling new tokens after what is cached, and decoding one token a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from burnish.sampling.memory import Cache, Own
from burnish.sampling.pool import Pool, Sharing


def dense_attention(
    query: Tensor, key: Tensor, value: Tensor, *, scaling: float, window: int | None, softcap: float | None
) -> Tensor:
    """Causal attention of the last T of S positions: query [heads, T, D], key and value [kv_heads, S, D] -> query's
    shape. The query at place i of S sees keys at places j with i - window < j <= i."""
    heads, count, total = query.shape[0], query.shape[1], key.shape[1]
    if window is not None and count > window:  # in blocks, each of which reads the keys in its reach alone
        before, blocks = total - count, []
        for start in range(0, count, window):
            stop = min(start + window, count)
            near = slice(max(0, before + start - window + 1), before + stop)
            reach = {"scaling": scaling, "window": window, "softcap": softcap}
            blocks.append(dense_attention(query[:, start:stop], key[:, near], value[:, near], **reach))
        return torch.cat(blocks, dim=1)
    plain = count == total and (window is None or total <= window)
    if softcap is None:
        return F.scaled_dot_product_attention(
            query[None], key[None], value[None], attn_mask=None if plain else _shown(query, key, window),
            is_causal=plain and count > 1, scale=scaling, enable_gqa=heads != key.shape[0],
        )[0]  # fmt: skip
    grouped = query.reshape(key.shape[0], -1, *query.shape[1:])
    scores = softcap * torch.tanh(grouped @ key[:, None].transpose(-1, -2) * scaling / softcap)
    seen = _shown(query, key, window)
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    return (_softmax(scores) @ value[:, None]).reshape(heads, count, -1)


def _shown(query: Tensor, key: Tensor, window: int | None) -> Tensor | None:
    """Which of S keys each of the last T positions sees [T, S]; None: every one sees all."""
    count, total = query.shape[1], key.shape[1]
    if count == 1 and (window is None or total <= window):
        return None
    places = torch.arange(total, device=query.device)
    return _seen(places[total - count :, None] - places, window)


def _seen(distance: Tensor, window: int | None) -> Tensor:
    return distance >= 0 if window is None else (distance >= 0) & (distance < window)


def _softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, in float32 or better."""
    if scores.dtype in (torch.float32, torch.float64):
        return scores.softmax(-1)
    return scores.softmax(-1, dtype=torch.float32).to(scores.dtype)


@dataclass
class Stretch:
    """Tokens start:stop of a packed forward pass, which continue a cached sequence (or none)."""

    start: int
    stop: int
    context: Cache | None


class PrefillLayout:
    """Several sequences in one forward pass, each after its own cache; remembers every layer's keys and values."""

    def __init__(self, stretches: Sequence[Stretch]) -> None:
        self.stretches = stretches
        self.keys: dict[int, Tensor] = {}
        """[kv_heads, N, D] by layer."""
        self.values: dict[int, Tensor] = {}
        self._runs = [s.context.run() if s.context is not None else None for s in stretches]

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
        self.keys[layer], self.values[layer] = key[0], value[0]
        outputs = []
        for stretch, run in zip(self.stretches, self._runs, strict=True):
            q, k, v = (x[0, :, stretch.start : stretch.stop] for x in (query, key, value))
            if run is not None:
                k, v = torch.cat([run.keys[layer], k], dim=1), torch.cat([run.values[layer], v], dim=1)
            outputs.append(dense_attention(q, k, v, scaling=scaling, window=window, softcap=softcap))
        return torch.cat(outputs, dim=1).transpose(0, 1)[None]

    def own(self, index: int) -> Own:
        """The new keys and values of one stretch (views)."""
        stretch = self.stretches[index]
        keys, values = (
            [by_layer[layer][:, stretch.start : stretch.stop] for layer in range(len(by_layer))]
            for by_layer in (self.keys, self.values)
        )
        return Own(keys, values)


class DecodeLayout:
    """One new token for every row of some pools, in order; further queries are padding and get zeros.

    Scores against the shared prefixes (one product per block for all its rows) and against a row's own keys stand side
    by side under one softmax, so the split changes nothing but the order of summation.
    """

    def __init__(self, pools: Sequence[tuple[Pool, list[Sharing]]]) -> None:
        self.steps: list[_PoolStep] = []
        start = 0
        for pool, sharing in pools:
            self.steps.append(_PoolStep(pool, sharing, start))
            start += len(pool.places)

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
        kv_heads = key.shape[1]
        # [N, kv_heads, repeats, D]: the query heads of one key head stand together
        queries = (query[0].transpose(0, 1) * scaling).unflatten(1, (kv_heads, -1))
        new_keys, new_values = key[0].transpose(0, 1), value[0].transpose(0, 1)
        outputs = [
            step.attend(layer, queries[s], new_keys[s], new_values[s], window, softcap)
            for step in self.steps
            for s in [slice(step.start, step.start + step.rows)]
        ]
        padding = len(queries) - sum(step.rows for step in self.steps)
        if padding:
            outputs.append(outputs[0].new_zeros(padding, *outputs[0].shape[1:]))
        output = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return output.flatten(1, 2)[None]


class _PoolStep:
    """The attention of one pool's rows at one step."""

    def __init__(self, pool: Pool, sharing: list[Sharing], start: int) -> None:
        self.pool, self.sharing, self.start = pool, sharing, start
        self.rows = len(pool.places)
        self.shared_width = max((s.block.width for s in sharing), default=0)
        lengths = [place.length for place in pool.places]
        self.own_width = pool.fixed or max(lengths) + 1
        self.dtype, self.device = pool.shape.dtype, pool.shape.device
        self.lengths = torch.tensor(lengths, device=self.device)
        bases = [place.base for place in pool.places]
        self.positions = self.lengths + torch.tensor(bases, device=self.device)
        self.index = torch.arange(self.rows, device=self.device)
        self.longest = max(length + base for length, base in zip(lengths, bases, strict=True)) + 1
        self.aligned = lengths[0] if min(lengths) == max(lengths) else None
        """Own keys of every row, where all have as many."""
        self.even = min(lengths) + 1 == self.own_width and (
            not sharing or (self.whole and all(p.prefix and p.base == self.shared_width for p in pool.places))
        )
        """Every key of the products is seen: no mask is needed unless a window cuts."""
        self._masks: dict[int | None, Tensor | None] = {}

    @property
    def whole(self) -> bool:
        return len(self.sharing) == 1 and self.sharing[0].whole

    def mask(self, window: int | None) -> Tensor | None:
        """0 where a row [rows, 1, 1, shared + own keys] sees a key and -inf where it does not; None: it sees all."""
        if window is not None and window >= self.longest:
            window = None
        if window not in self._masks:
            self._masks[window] = None if self.even and window is None else self._make_mask(window)
        return self._masks[window]

    def _make_mask(self, window: int | None) -> Tensor:
        seen = torch.zeros(self.rows, self.shared_width + self.own_width, dtype=torch.bool, device=self.device)
        own = torch.arange(self.own_width, device=self.device) - self.lengths[:, None]  # minus the distance [rows, W]
        seen[:, self.shared_width :] = _seen(-own, window)
        for sharing in self.sharing:
            places = torch.arange(sharing.block.width, device=self.device)
            near = places < sharing.lengths[:, None]
            if window is not None:
                near &= self.positions[sharing.rows, None] - places < window
            seen[sharing.rows, : sharing.block.width] = near
        mask = torch.zeros(seen.shape, dtype=self.dtype, device=self.device)
        return mask.masked_fill_(~seen, -torch.inf)[:, None, None]

    def attend(
        self, layer: int, query: Tensor, key: Tensor, value: Tensor, window: int | None, softcap: float | None
    ) -> Tensor:
        """query [rows, kv_heads, repeats, D] already scaled, new key and value [rows, kv_heads, D] -> query's shape."""
        keys, values = self.pool.keys[layer], self.pool.values[layer]
        if self.aligned is not None:  # a plain copy is much quicker than an indexed one
            keys[: self.rows, :, self.aligned] = key
            values[: self.rows, :, self.aligned] = value
        else:
            keys[self.index, :, self.lengths] = key
            values[self.index, :, self.lengths] = value
        keys, values = (x[: self.rows, :, : self.own_width].flatten(0, 1) for x in (keys, values))
        own = torch.bmm(query.flatten(0, 1), keys.transpose(1, 2)).unflatten(0, (self.rows, -1))
        scores = torch.cat([self._shared_scores(layer, query), own], dim=-1) if self.sharing else own
        if softcap is not None:
            scores = softcap * torch.tanh(scores / softcap)
        mask = self.mask(window)
        if mask is not None:
            scores += mask
        weights = _softmax(scores)
        output = torch.bmm(weights[..., self.shared_width :].flatten(0, 1), values).unflatten(0, (self.rows, -1))
        for sharing in self.sharing:
            shared = self._shared_output(sharing, sharing.block.values[layer], weights)
            output = output + shared if sharing.whole else output.index_add_(0, sharing.rows, shared)
        return output

    def _shared_scores(self, layer: int, query: Tensor) -> Tensor:
        """Scores [rows, kv_heads, repeats, shared keys]; 0, to be masked, where a row has no such key."""
        if self.whole:
            return _stacked(query, self.sharing[0].block.keys[layer].transpose(2, 3))
        scores = query.new_zeros(*query.shape[:3], self.shared_width)
        for sharing in self.sharing:
            stacked = _stacked(query.index_select(0, sharing.gather), sharing.block.keys[layer].transpose(2, 3))
            scores[sharing.rows, ..., : sharing.block.width] = stacked.index_select(0, sharing.place)
        return scores

    def _shared_output(self, sharing: Sharing, values: Tensor, weights: Tensor) -> Tensor:
        weights = weights[..., : sharing.block.width]
        if sharing.whole:
            return _stacked(weights, values)
        return _stacked(weights.index_select(0, sharing.gather), values).index_select(0, sharing.place)


def _stacked(rows: Tensor, matrices: Tensor) -> Tensor:
    """rows [G * R, kv_heads, repeats, A] times matrices [G, kv_heads, A, B], R rows to a matrix -> [G * R, ..., B]."""
    groups, kv_heads = matrices.shape[:2]
    repeats = rows.shape[2]
    stacked = rows.unflatten(0, (groups, -1)).transpose(1, 2).reshape(groups * kv_heads, -1, rows.shape[-1])
    product = torch.bmm(stacked, matrices.flatten(0, 1))
    return product.reshape(groups, kv_heads, -1, repeats, product.shape[-1]).transpose(1, 2).flatten(0, 1)
