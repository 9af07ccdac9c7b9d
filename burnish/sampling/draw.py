"""Drawing tokens by inverting the distribution function, with the log-probability of exactly what was drawn from.

A cumulative sum over a large vocabulary is inexact in float32, so the sum runs in two levels: float32 sums of short
blocks, then float64 across blocks, then float64 inside the one block that the uniform number falls into. A token of
probability zero is never drawn. Truncated rows look only at their most probable tokens, as every cut keeps a prefix
of the tokens in order of probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from burnish.errors import RunError
from burnish.sampling.protocol import SamplingParams

_BLOCK = 256
_CANDIDATES = 128
"""Most probable tokens looked at first in a truncated row; eight times as many while the cut lies beyond them."""

Floats = npt.NDArray[np.float64]


@dataclass
class Draw:
    """Tokens [R], their log-probabilities [R], and the kept ids of each row (None: nothing was cut)."""

    tokens: npt.NDArray[np.int64]
    logprobs: Floats
    kept: list[npt.NDArray[np.int32] | None]


def draw(logits: Tensor, uniforms: Floats, params: Sequence[SamplingParams]) -> Draw:
    """One token a row from logits [R, V] (float32 or float64), uniform numbers [R] in (0, 1) and R parameter sets.

    Raises RunError when a row's logits hold no distribution (NaN, +inf, or all -inf).
    """
    count = len(params)
    out = Draw(np.zeros(count, np.int64), np.zeros(count), [None] * count)
    greedy = [i for i, p in enumerate(params) if p.greedy]
    truncated = [i for i, p in enumerate(params) if p.truncates]
    chosen = {*greedy, *truncated}
    plain = [i for i in range(count) if i not in chosen]
    if greedy:
        _greedy(_rows(logits, greedy, count), greedy, out)
    if plain:
        _plain(_rows(logits, plain, count), uniforms[plain], [params[i].temperature for i in plain], plain, out)
    if truncated:
        _truncated(_rows(logits, truncated, count), uniforms[truncated], [params[i] for i in truncated], truncated, out)
    return out


def _rows(logits: Tensor, rows: list[int], count: int) -> Tensor:
    return logits[:count] if len(rows) == count else logits[rows]


def _checked(totals: Floats) -> Floats:
    if not (np.isfinite(totals) & (totals > 0)).all():
        raise RunError("the model's logits are not a distribution (NaN or infinite): the weights have diverged")
    return totals


def _greedy(logits: Tensor, rows: list[int], out: Draw) -> None:
    tokens = logits.argmax(dim=-1)
    logprobs = torch.log_softmax(logits, dim=-1).gather(-1, tokens[:, None])[:, 0]
    out.tokens[rows] = tokens.cpu().numpy()
    out.logprobs[rows] = logprobs.double().cpu().numpy()
    if not np.isfinite(out.logprobs[rows]).all():
        _checked(np.array([np.nan]))


def _weights(logits: Tensor, temperatures: Sequence[float]) -> tuple[Tensor, Tensor]:
    """exp((logits - peak) / temperature) [R, V] and the peaks [R, 1]."""
    peak = logits.amax(dim=-1, keepdim=True)
    weights = logits - peak
    if any(t != 1 for t in temperatures):
        weights /= torch.tensor(temperatures, dtype=logits.dtype, device=logits.device)[:, None]
    return weights.exp_(), peak


def _block_sums(weights: Tensor) -> Floats:
    """Sums [R, blocks] over blocks of the vocabulary, the last one short."""
    whole = weights.shape[1] // _BLOCK * _BLOCK
    sums = [weights[:, :whole].unflatten(1, (-1, _BLOCK)).sum(dim=-1)] if whole else []
    if whole < weights.shape[1]:
        sums.append(weights[:, whole:].sum(dim=-1, keepdim=True))
    return torch.cat(sums, dim=1).double().cpu().numpy()


def _invert(weights: Floats, targets: Floats) -> npt.NDArray[np.int64]:
    """First index [R] whose cumulative weight exceeds the target; never one of weight zero, and never past the end."""
    index = (np.cumsum(weights, axis=1) <= targets[:, None]).sum(axis=1)
    last = weights.shape[1] - 1 - np.argmax(weights[:, ::-1] > 0, axis=1)
    return np.minimum(index, last)


def _plain(logits: Tensor, uniforms: Floats, temperatures: list[float], rows: list[int], out: Draw) -> None:
    weights, peak = _weights(logits, temperatures)
    sums = _block_sums(weights)
    totals = _checked(sums.sum(axis=1))
    targets = uniforms * totals
    block = _invert(sums, targets)
    before = np.cumsum(sums, axis=1)[np.arange(len(rows)), block] - sums[np.arange(len(rows)), block]
    places = torch.from_numpy(block)[:, None] * _BLOCK + torch.arange(min(_BLOCK, logits.shape[1]))
    inside = places < logits.shape[1]
    places = places.clamp(max=logits.shape[1] - 1).to(logits.device)
    near = weights.gather(1, places).double().cpu().numpy() * inside.numpy()
    tokens = block * _BLOCK + _invert(near, targets - before)
    scores = (logits.gather(1, torch.from_numpy(tokens)[:, None].to(logits.device)) - peak)[:, 0].double().cpu().numpy()
    out.tokens[rows] = tokens
    out.logprobs[rows] = scores / np.array(temperatures) - np.log(totals)


def _truncated(logits: Tensor, uniforms: Floats, params: list[SamplingParams], rows: list[int], out: Draw) -> None:
    weights, _ = _weights(logits, [p.temperature for p in params])
    totals = _checked(_block_sums(weights).sum(axis=1))
    vocabulary = logits.shape[1]
    width = min(vocabulary, max(_CANDIDATES, max(p.top_k for p in params) + 1))
    pending = list(range(len(params)))
    while pending:
        values, ids = (x.cpu().numpy() for x in torch.topk(logits[pending], width, dim=-1))
        order = np.lexsort((ids, -values), axis=-1)  # equal tokens in order of id, whatever topk does with them
        values = np.take_along_axis(values, order, -1).astype(np.float64)
        ids = np.take_along_axis(ids, order, -1)
        left = []
        for row, value, near in zip(pending, values, ids, strict=True):
            scaled = (value - value[0]) / params[row].temperature
            kept = _kept(np.exp(scaled), value, float(totals[row]), params[row])
            ends = (kept, params[row].top_k or 1)
            if width < vocabulary and any(value[end - 1] == value[-1] for end in ends):
                left.append(row)
                continue
            mass = np.cumsum(np.exp(scaled[:kept]))
            pick = min(int((mass <= uniforms[row] * mass[-1]).sum()), kept - 1)
            out.tokens[rows[row]] = near[pick]
            out.logprobs[rows[row]] = scaled[pick] - np.log(mass[-1])
            if kept < vocabulary:
                out.kept[rows[row]] = np.sort(near[:kept]).astype(np.int32)
        pending, width = left, min(vocabulary, width * 8)


def _kept(weights: Floats, values: Floats, total: float, params: SamplingParams) -> int:
    """How many of the K most probable tokens stay; their weights and logits [K] fall, the whole row weighs `total`.

    Where a cut reaches the last candidate the answer is not to be trusted: the caller looks at more of them.
    """
    kept = int((weights > 0).sum())
    if 0 < params.top_k < kept:
        kept = int((values[:kept] >= values[params.top_k - 1]).sum())
    if params.top_k > 0:
        total = float(weights[:kept].sum())
    if params.top_p < 1:
        mass = np.cumsum(weights[:kept])
        kept = int((mass - weights[:kept] < params.top_p * total).sum())
    if params.min_p > 0:
        kept = min(kept, int((weights[:kept] >= params.min_p).sum()))
    return max(kept, 1)
