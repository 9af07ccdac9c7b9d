"""The lean head's chunk by torch's fused linear cross-entropy, wherever that computes the same numbers.

`torch.nn.functional.linear_cross_entropy` projects, takes the softmax and its gradient in place on one chunk of logits,
where our own chunk (models/head.py) needs five tensors of that size and, on a CPU, twice the time. It knows neither a
soft cap nor a kept support nor an entropy, and gives a bfloat16 model's log-probabilities in bfloat16; docs/gpu.md says
what follows from that, and why it was preferred to other libraries.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_EXACT = (torch.float32, torch.float64)
"""Types whose log-probabilities come back as precise as our own chunk's."""


def obstacle(projection: nn.Module, scaled: bool, softcap: float | None) -> str | None:
    """Why the fused operation cannot stand for a head, in words; None where it can. `scaled`: the logits are."""
    if type(projection) is not nn.Linear:
        return f"the head is a {type(projection).__name__} and not a plain linear layer"
    if softcap:
        return "the model caps its logits"
    if scaled and projection.bias is not None:
        return "the logits have a bias and are scaled"
    return None


def precise(dtype: torch.dtype) -> bool:
    """Whether the fused operation loses no digits in a type: ratios of probabilities can be taken of what it gives."""
    return dtype in _EXACT


def fused_logprobs(projection: nn.Linear, hidden: Tensor, targets: Tensor, scale: Tensor | float, rows: int) -> Tensor:
    """Log-probability [M] of `targets` [M] at hidden states [M, H], `rows` of them at a time.

    The logits are those of `scale` (a number, or [M, 1]) times the hidden states. In float32 or, for a float64 model,
    float64; rounded to bfloat16 before that for a bfloat16 model, and so are the weights that come back.
    """
    if isinstance(scale, Tensor) or scale != 1.0:
        hidden = hidden * scale
    options = nn.LinearCrossEntropyOptions(batch_chunk_size=rows, chunking_method=None)
    # an id that is never a target, so that none is left out
    loss = F.linear_cross_entropy(
        hidden, projection.weight, targets, linear_bias=projection.bias, reduction="none", ignore_index=-1,
        options=options,
    )  # fmt: skip
    return -(loss if loss.dtype == torch.float64 else loss.float())
