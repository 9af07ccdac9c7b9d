"""A loss of log-probabilities inside the vocabulary head: one chunk of logits at a time, and none projected twice.

A token-scope loss needs nothing of other tokens. So as soon as a chunk's log-probabilities are there, its part of the
loss and the gradient of that are too, and the logits at hand become their own gradient in place. A head that hands out
log-probabilities instead has to keep the logits or to project again in the backward pass, which for a 135M model is a
twentieth of the whole update.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

Evaluate = Callable[[int, int, Tensor], Tensor]
"""The part of a loss that lies on positions start:stop, a scalar, from their log-probabilities [stop - start]."""


def head_loss(
    projection: nn.Linear, hidden: Tensor, targets: Tensor, scale: Tensor | float, rows: int, evaluate: Evaluate
) -> Tensor:
    """The sum over chunks of `rows` positions of `evaluate`, differentiable in hidden states and projection.

    The log-probabilities are those of `targets` [M] under softmax(scale * logits) at hidden states [M, H]; `scale` is a
    number or [M]. They are computed in float32 from logits in the projection's type (float64 for a float64 model), and
    so is the sum over chunks of the projection's gradient. `evaluate` is called once for each chunk, in order.
    """
    return _HeadLoss.apply(hidden.to(projection.weight.dtype), projection.weight, targets, scale, rows, evaluate)


class _HeadLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: Tensor | float, rows: int, evaluate: Evaluate
    ) -> Tensor:
        wide = torch.promote_types(weight.dtype, torch.float32)
        to_hidden, to_weight = ctx.needs_input_grad[:2]
        hidden_grad = torch.empty_like(hidden) if to_hidden else None
        weight_grad = torch.zeros_like(weight, dtype=wide) if to_weight else None
        total = torch.zeros((), dtype=wide, device=hidden.device)
        chunk = hidden.new_empty(min(rows, len(hidden)), len(weight), dtype=wide)
        for start in range(0, len(hidden), rows):
            stop = min(len(hidden), start + rows)
            part, ids = hidden[start:stop], targets[start:stop, None]
            factor = scale[start:stop, None].to(wide) if isinstance(scale, Tensor) else scale
            logits = _product(part, weight.T, chunk[: stop - start]).mul_(factor)
            peak = logits.amax(dim=-1, keepdim=True)
            chosen = logits.gather(-1, ids) - peak
            mass = logits.sub_(peak).exp_().sum(dim=-1, keepdim=True)  # from here on, softmax times its mass
            logprob = (chosen - mass.log())[:, 0].requires_grad_()
            with torch.enable_grad():
                value = evaluate(start, stop, logprob)
            total += value.detach()
            if not value.requires_grad:  # no token of the chunk is in the loss
                if hidden_grad is not None:
                    hidden_grad[start:stop] = 0
                continue
            [slope] = torch.autograd.grad(value, logprob)
            # d logprob / d logits = scale * (one at the target - softmax)
            slope = slope[:, None] * factor
            gradient = logits.mul_(-slope / mass).scatter_add_(-1, ids, slope).to(weight.dtype)
            if hidden_grad is not None:
                torch.mm(gradient, weight, out=hidden_grad[start:stop])
            if weight_grad is not None:
                _add_product(weight_grad, gradient.T, part)
        ctx.gradients = (hidden_grad, weight_grad)
        ctx.dtype = weight.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of a head loss were handed out: it has one backward pass")
        (to_hidden, to_weight), ctx.gradients = ctx.gradients, None
        for gradient in (to_hidden, to_weight):  # in place: the projection's is the largest tensor there is
            if gradient is not None:
                gradient.mul_(slopes[0].to(gradient.dtype))
        return to_hidden, None if to_weight is None else to_weight.to(ctx.dtype), None, None, None, None


def _product(left: Tensor, right: Tensor, out: Tensor) -> Tensor:
    """left @ right in their own type, as `out` has it."""
    return torch.mm(left, right, out=out) if out.dtype == left.dtype else out.copy_(left @ right)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, in the total's type."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right
