"""Muon: momentum whose singular values are all made about equal, for matrices; AdamW for everything else.

Jordan et al. 2024 (Muon), Liu et al. 2025, arXiv 2502.16982 (Moonlight: the scale that lets AdamW's learning rate and
decay carry over), Amsel et al. 2025, arXiv 2505.16932 (Polar Express), Li et al. 2025, arXiv 2510.05491 (NorMuon).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from burnish.learning.spec import MuonSpec

_JORDAN = ((3.4445, -4.7750, 2.0315),)
_POLAR = (
    (8.156554524902461, -22.48329292557795, 15.878769915207462),
    (4.042929935166739, -2.808917465908714, 0.5000178451051316),
    (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
    (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
    (2.3465413258596377, -1.7097828382687081, 0.42323551169305323),
)
"""Of each iteration; further ones repeat the last."""
_MARGIN = {"jordan": 1.0, "polar": 1.02}
"""The norm is taken larger by so much: Polar Express diverges for singular values above 1."""
_SMALLEST = 1e-7


@dataclass(frozen=True)
class Blocks:
    """A matrix as Muon sees it: how many outputs each of the maps that are fused in it has, and whether it is stored
    with its outputs as columns (transformers' Conv1D)."""

    sizes: tuple[int, ...]
    transposed: bool = False

    @classmethod
    def of(cls, matrix: Tensor) -> Blocks:
        """A matrix [outputs, inputs] that is one map; of a stack [., outputs, inputs] each."""
        return cls((matrix.shape[-2],))


def orthogonalized(matrix: Tensor, spec: MuonSpec) -> Tensor:
    """About U V^T of a matrix U S V^T, by Newton-Schulz iterations; of a stack [experts, rows, columns] each.

    Singular values come out between about 0.7 and 1.2, small ones of square matrices lower.
    """
    dtype = torch.bfloat16 if spec.precision == "bfloat16" else torch.promote_types(matrix.dtype, torch.float32)
    x = matrix.to(dtype)
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) * _MARGIN[spec.coefficients]).clamp(min=_SMALLEST)
    add = torch.addmm if x.dim() == 2 else torch.baddbmm
    table = _JORDAN if spec.coefficients == "jordan" else _POLAR
    for iteration in range(spec.iterations):
        a, b, c = table[min(iteration, len(table) - 1)]
        gram = x @ x.mT
        x = add(x, add(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x if wide else x.mT


def scale_of(rows: int, columns: int, spec: MuonSpec) -> float:
    """What an orthogonal [rows, columns] is multiplied by beside the learning rate."""
    if spec.scale == "match_rms":
        return 0.2 * max(rows, columns) ** 0.5
    if spec.scale == "original":
        return max(1.0, rows / columns) ** 0.5
    return (rows / columns) ** 0.5


class Muon(torch.optim.Optimizer):
    """Muon on the parameters that `plan` gives blocks, AdamW on the others; one parameter group for each, in order.

    Everything has the learning rate of its group; AdamW's is multiplied by `muon.rest_lr`. Weight decay is decoupled.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        plan: Sequence[Blocks | None],
        *,
        lr: float,
        betas: tuple[float, float],
        eps: float,
        weight_decay: float,
        muon: MuonSpec,
    ) -> None:
        # `fused` is what the state's loader asks for: where AdamW's step counts live
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": True}
        groups = [{"params": [p], "blocks": blocks} for p, blocks in zip(parameters, plan, strict=True)]
        super().__init__(groups, defaults)
        self.muon = muon
        others = [p for p, blocks in zip(parameters, plan, strict=True) if blocks is None]
        settings: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": True}
        self._rest = torch.optim.AdamW(others, lr=lr * muon.rest_lr, **settings) if others else None
        if self._rest is not None:
            self._rest.state = self.state  # one state for both: it is saved and loaded by parameter

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Take a step along the gradients that are there."""
        for group in self.param_groups:
            (parameter,) = group["params"]
            if group["blocks"] is not None and parameter.grad is not None:
                self._matrix(parameter, parameter.grad, group)
        if self._rest is not None:
            for group in self._rest.param_groups:
                group["lr"] = self.param_groups[0]["lr"] * self.muon.rest_lr
            self._rest.step()

    def _matrix(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        blocks, lr, spec = group["blocks"], group["lr"], self.muon
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(gradient)
        momentum = state["momentum"].lerp_(gradient, 1 - spec.momentum)
        update = gradient.lerp(momentum, spec.momentum) if spec.nesterov else momentum
        parameter.mul_(1 - lr * group["weight_decay"])
        weight, update = (t.mT if blocks.transposed else t for t in (parameter, update))
        if spec.normalise and "rows" not in state:
            state["rows"] = gradient.new_zeros(update[..., :1].shape)
        start = 0
        for size in blocks.sizes:
            rows = slice(start, start + size)
            piece = orthogonalized(update[..., rows, :], spec)
            if spec.normalise:
                piece = _normalised(piece, state["rows"][..., rows, :])
            weight[..., rows, :].add_(piece, alpha=-lr * scale_of(size, weight.shape[-1], spec))
            start += size


_ROW_MEMORY, _ROW_EPS = 0.95, 1e-8


def _normalised(piece: Tensor, moments: Tensor) -> Tensor:
    """Rows over the root of their running second moment, at the same Frobenius norm (NorMuon); moments change."""
    moments.lerp_(piece.square().mean(-1, keepdim=True).to(moments.dtype), 1 - _ROW_MEMORY)
    even = piece / (moments.sqrt() + _ROW_EPS).to(piece.dtype)
    before, after = (torch.linalg.matrix_norm(t, keepdim=True) for t in (piece, even))
    return even * (before / after.clamp(min=_SMALLEST))
