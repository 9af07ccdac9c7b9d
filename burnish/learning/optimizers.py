"""torch's optimizers by name, with the settings each of them knows."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.learning.muon import Blocks, Muon
from burnish.learning.spec import OptimizerSpec

_CLASSES: dict[str, type[torch.optim.Optimizer]] = {
    "adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD, "rmsprop": torch.optim.RMSprop,
    "adafactor": torch.optim.Adafactor, "nadam": torch.optim.NAdam, "radam": torch.optim.RAdam,
    "adagrad": torch.optim.Adagrad, "adamax": torch.optim.Adamax, "adadelta": torch.optim.Adadelta,
}  # fmt: skip


def make_optimizer(
    spec: OptimizerSpec, parameters: Iterable[Tensor], lr: float, plan: Sequence[Blocks | None] | None = None
) -> torch.optim.Optimizer:
    """The optimizer a spec names; `plan` says which parameters are Muon's (by default all that have two dimensions).

    Raises InputError when a key was set that this optimizer does not have.
    """
    if spec.name == "muon":
        return _muon(spec, list(parameters), lr, plan)
    cls = _CLASSES[spec.name]
    known = inspect.signature(cls.__init__).parameters
    settings: dict[str, Any] = {"lr": lr, "weight_decay": spec.weight_decay}
    for key in ("betas", "eps", "momentum"):
        if key in known and spec.name != "adafactor":  # Adafactor's eps is a pair with another meaning
            settings[key] = getattr(spec, key)
        elif getattr(spec, key) != OptimizerSpec.model_fields[key].default:
            raise InputError(f"optimizer {spec.name!r} has no {key!r}: remove optimizer.{key}")
    if "foreach" in known and spec.name != "adafactor":
        settings["foreach"] = False  # one parameter at a time: no second copy of the gradients
    if "fused" in known:
        settings.pop("foreach", None)
        settings["fused"] = True
    return cls(list(parameters), **settings)


def _muon(spec: OptimizerSpec, parameters: list[Tensor], lr: float, plan: Sequence[Blocks | None] | None) -> Muon:
    if spec.momentum != OptimizerSpec.model_fields["momentum"].default:
        raise InputError(
            "optimizer 'muon' has no 'momentum': remove optimizer.momentum, or set optimizer.muon.momentum"
        )
    return Muon(
        parameters, plan_of(parameters) if plan is None else plan, lr=lr, betas=spec.betas, eps=spec.eps,
        weight_decay=spec.weight_decay, muon=spec.muon,
    )  # fmt: skip


def plan_of(parameters: Iterable[Tensor]) -> list[Blocks | None]:
    """What Muon takes where nothing is known of the network: every matrix."""
    return [Blocks.of(p) if p.dim() == 2 else None for p in parameters]


def clip_global_norm(tensors: Iterable[Tensor], limit: float | None) -> float:
    """Global 2-norm of the gradients; they are scaled down in place when it exceeds `limit`.

    The norm is summed in float64, so that it does not depend on the order of the parameters beyond rounding.
    """
    gradients = [t.grad for t in tensors if t.grad is not None]
    norms = [torch.linalg.vector_norm(g).double() for g in gradients]
    # fetched together: a GPU is waited for once
    norm = sum((value**2 for value in torch.stack(norms).tolist()), 0.0) ** 0.5 if norms else 0.0
    if limit is not None and norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm
