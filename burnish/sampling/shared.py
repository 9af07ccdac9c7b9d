"""Running the model with prefixes computed once and shared, and rows that decode over static key/value buffers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from burnish.models.language_model import LanguageModel
from burnish.sampling.layouts import DecodeLayout, PrefillLayout, Stretch
from burnish.sampling.memory import Block, ByteBudget, Cache, CacheShape, Own, Prefix
from burnish.sampling.pool import Place, Pool, Sharing, plan, rounded
from burnish.sampling.requests import Request, Row

_STACK, _WIDTH, _PREFIX = 8, 64, 32
"""Deterministic mode: a prefix serves so many rows at a time; own and prefix keys are padded to multiples of these."""
_UNEVEN = 0.6
"""Prefixes whose length or number of rows is below this share of the largest go to a block of their own."""


class SharedRunner:
    """Prefixes computed once and shared, decoding over static buffers, through the model's attention interface.

    With `deterministic` every attention product has a shape that depends on its own request alone, each request is
    prefilled by itself, and decoding pads the number of rows to a multiple of `quantum`; a row's bits then depend on
    its batch mates only through matrix products of such row counts, which the probe has checked.
    """

    def __init__(
        self, model: LanguageModel, budget: ByteBudget, *, max_rows: int = 64, deterministic: bool = False
    ) -> None:
        self.model, self.budget, self.max_rows = model, budget, max_rows
        self.deterministic = deterministic
        self.quantum = 1
        self.shape = cache_shape(model)
        self._pools: dict[tuple[int, int], Pool] = {}
        self._plans: dict[Pool, list[Sharing]] = {}

    # -- memory --------------------------------------------------------------------------------------------------

    def need(self, requests: Sequence[Request]) -> int:
        """See Runner. Counts the rows in flight at their greatest length too."""
        growth: dict[tuple[int, int], list[tuple[int, int]]] = {}
        total = 0
        for request in requests:
            prefix, own = _split(request)
            if prefix and (request.cache is None or request.n > 1):
                total += prefix * self.shape.token_bytes
            growth.setdefault(self._key(prefix, own, request), []).append((request.n, own + request.params.max_tokens))
        for key, pool in self._pools.items():
            if pool.places:
                growth.setdefault(key, [])
        for key, new in growth.items():
            pool = self._pools.get(key) or self._new_pool(key)
            placed = [(1, p.length + _left(p)) for p in pool.places]
            rows = min(self.max_rows, sum(n for n, _ in new + placed))
            size = pool.size_for(rows, max(tokens for _, tokens in new + placed))
            total += pool.bytes_of(size) - pool.bytes_of(pool.size)
        return total

    def _key(self, prefix: int, own: int, request: Request) -> tuple[int, int]:
        """Which pool a row belongs to: one for all, or in deterministic mode one for each shape."""
        if not self.deterministic:
            return (0, 0)
        return (rounded(prefix, _PREFIX), rounded(own + request.params.max_tokens, _WIDTH))

    def _new_pool(self, key: tuple[int, int]) -> Pool:
        if not self.deterministic:
            return Pool(self.shape, self.budget)
        return Pool(self.shape, self.budget, width=key[1], stack=_STACK)

    # -- prefill -------------------------------------------------------------------------------------------------

    def prefill(self, requests: Sequence[Request]) -> tuple[Tensor, int]:
        """See Runner."""
        if self.deterministic and len(requests) > 1:
            parts = [self.prefill([request]) for request in requests]
            return torch.cat([logits for logits, _ in parts]), sum(count for _, count in parts)
        tokens: list[int] = []
        positions: list[int] = []
        stretches: list[Stretch] = []
        for request in requests:
            known = 0 if request.cache is None else request.cache.length
            stretches.append(Stretch(len(tokens), len(tokens) + len(request.history) - known, request.cache))
            tokens += request.history[known:]
            positions += range(known, len(request.history))
        layout = PrefillLayout(stretches)
        device = self.model.device
        hidden = self.model.hidden(torch.tensor(tokens, device=device), torch.tensor(positions, device=device), layout)
        last = torch.tensor([s.stop - 1 for s in stretches], device=device)
        self._remember(requests, layout)
        return self.model.logits(hidden[last]), len(tokens)

    def _remember(self, requests: Sequence[Request], layout: PrefillLayout) -> None:
        """Requests of one row keep their keys as the row's own; the prefixes of the others are stacked in blocks."""
        shared: list[tuple[Request, Own]] = []
        for index, request in enumerate(requests):
            new, context = layout.own(index), request.cache
            if request.n > 1:
                run = None if context is None else context.run()
                shared.append((request, new if run is None else run.followed_by(new)))
            elif context is None:
                request.cache = Cache(None, new)
            else:
                request.cache = Cache(context.prefix, new if context.own is None else context.own.followed_by(new))
        for bundle in self._bundles(shared):
            runs = [run for _, run in bundle]
            width = rounded(runs[0].length, _PREFIX) if self.deterministic else None
            block = Block(runs, self.shape, self.budget, width)
            for index, (request, run) in enumerate(bundle):
                request.cache = Cache(Prefix(block, index, run.length), None)

    @staticmethod
    def _bundles(shared: list[tuple[Request, Own]]) -> list[list[tuple[Request, Own]]]:
        """Those whose length and number of rows are alike, so that stacking them pads little."""
        bundles: list[list[tuple[Request, Own]]] = []
        for item in sorted(shared, key=lambda x: (-x[1].length, -x[0].n)):
            first = bundles[-1][0] if bundles else None
            alike = first is not None and all(
                _UNEVEN * max(a, b) <= min(a, b)
                for a, b in ((item[1].length, first[1].length), (item[0].n, first[0].n))
            )
            if alike:
                bundles[-1].append(item)
            else:
                bundles.append([item])
        return bundles

    # -- rows ----------------------------------------------------------------------------------------------------

    def enter(self, rows: Sequence[Row]) -> None:
        """See Runner."""
        coming: dict[tuple[int, int], list[Row]] = {}
        for row in rows:
            coming.setdefault(self._key(*_split(row.request), row.request), []).append(row)
        for key, some in coming.items():
            pool = self._pools.get(key) or self._new_pool(key)
            self._pools[key] = pool
            own = max(_own(row.request) for row in some)
            most = max(_own(row.request) + row.request.params.max_tokens for row in some)
            pool.reserve(len(pool.places) + len(some), own + 1, most)
            for row in some:
                row.place = (pool, pool.add(row.request.cache, row))

    def held(self, rows: Sequence[Row]) -> int:
        """See Runner."""
        kept = (row.place[1].length for row in rows if row.place is not None and row.request.keep)
        return sum(kept) * self.shape.token_bytes

    def leave(self, rows: Sequence[Row]) -> list[Cache | None]:
        """See Runner."""
        caches: list[Cache | None] = []
        leaving: dict[Pool, list[Place]] = {}
        for row in rows:
            if row.place is None:
                caches.append(_detached(row.request.cache) if row.request.keep else None)
                continue
            pool, place = row.place
            caches.append(pool.cache(place) if row.request.keep else None)
            leaving.setdefault(pool, []).append(place)
            row.place = None
        for pool, places in leaving.items():
            pool.remove(places)
            if not pool.places:
                self._plans.pop(pool, None)
        return caches

    def trim(self) -> None:
        """See Runner."""
        for pool in self._pools.values():
            if not pool.places:
                pool.drop()
        self._pools = {key: pool for key, pool in self._pools.items() if pool.places}

    def clear(self) -> None:
        """See Runner."""
        for pool in self._pools.values():
            pool.drop()
        self._pools, self._plans = {}, {}

    # -- decode --------------------------------------------------------------------------------------------------

    def rows(self) -> list[Row]:
        """The placed rows in the order in which `decode` runs them."""
        return [place.owner for pool in self._pools.values() for place in pool.places]

    def decode(self) -> tuple[list[Row], Tensor]:
        """See Runner."""
        pools = [pool for pool in self._pools.values() if pool.places]
        for pool in pools:
            longest = max(place.length for place in pool.places) + 1
            pool.reserve(len(pool.places), longest, max(place.length + _left(place) for place in pool.places))
            if pool.changed:
                self._plans[pool], pool.changed = plan(pool), False
        layout = DecodeLayout([(pool, self._plans[pool]) for pool in pools])
        places = [place for pool in pools for place in pool.places]
        rows = self.rows()
        padding = [0] * (rounded(len(rows), self.quantum) - len(rows))
        device = self.model.device
        tokens = torch.tensor([row.tokens[-1] for row in rows] + padding, device=device)
        positions = torch.tensor([place.base + place.length for place in places] + padding, device=device)
        logits = self.model.logits(self.model.hidden(tokens, positions, layout))
        for place in places:
            place.length += 1
        return rows, logits[: len(rows)]


def _split(request: Request) -> tuple[int, int]:
    """Tokens of the prefix that the request's rows share, and tokens that are a row's own from the start."""
    total = len(request.history)
    if request.n > 1:
        return total, 0
    base = 0 if request.cache is None else request.cache.base
    return base, total - base


def _own(request: Request) -> int:
    return _split(request)[1]


def _left(place: Place) -> int:
    row: Row = place.owner
    return row.request.params.max_tokens - len(row.tokens) + 1


def _detached(cache: Cache | None) -> Cache | None:
    """A cache whose own keys are no views of a whole forward pass."""
    if cache is None or cache.own is None:
        return cache
    own = cache.own
    return Cache(cache.prefix, Own([x.clone() for x in own.keys], [x.clone() for x in own.values]))


def cache_shape(model: LanguageModel) -> CacheShape:
    """Run one token to see what each layer's keys and values look like."""
    layout = PrefillLayout([Stretch(0, 1, None)])
    zero = torch.zeros(1, dtype=torch.long, device=model.device)
    with torch.no_grad():
        model.hidden(zero, zero, layout)
    keys, values = (
        tuple((x[layer].shape[0], x[layer].shape[-1]) for layer in range(len(x))) for x in (layout.keys, layout.values)
    )
    return CacheShape(keys, values, layout.keys[0].dtype, layout.keys[0].device)
