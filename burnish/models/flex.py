"""The forest's attention as a FlexAttention block mask, for GPUs (FlexAttention has no backward pass on a CPU)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

if TYPE_CHECKING:
    from burnish.models.forest import Forest

MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def mask_function(forest: Forest, window: int | None) -> MaskFunction:
    """Whether query q sees key k: k's slot is q's slot or its ancestor, k is not later, and k is inside the window."""
    device = forest.positions.device
    slot_of = forest.slot_of_token().to(device)
    ancestry = forest.ancestry().to(device)
    positions = forest.positions

    def visible(batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        distance = positions[q] - positions[k]
        seen = ancestry[slot_of[q], slot_of[k]] & (distance >= 0)
        return seen if window is None else seen & (distance < window)

    return visible


def block_mask(forest: Forest, window: int | None) -> BlockMask:
    """The block mask of a forest, made once per window and kept for the following layers."""
    cache: dict[Any, Any] = forest._flex
    if window not in cache:
        count = len(forest)
        cache[window] = create_block_mask(
            mask_function(forest, window), None, None, count, count, device=str(forest.positions.device)
        )
    return cache[window]


_compiled = torch.compile(flex_attention, dynamic=True)


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

    cap = softcap or 1.0

    def capped(score: Tensor, batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return cap * torch.tanh(score / cap)

    run = _compiled if query.is_cuda else flex_attention
    output = run(
        query, key, value, score_mod=None if softcap is None else capped, block_mask=block_mask(forest, window),
        scale=scaling, enable_gqa=query.shape[1] != key.shape[1],
    )  # fmt: skip
    return output.transpose(1, 2)
