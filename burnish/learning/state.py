"""Optimizer state as named tensors, so that it can be written as safetensors and read without pickle."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from burnish.models.devices import CPU


def optimizer_state(optimizer: torch.optim.Optimizer, names: list[str]) -> dict[str, Tensor]:
    """The optimizer's per-parameter tensors as `optimizer/<parameter>/<entry>`; `names` in the optimizer's order.

    Numbers become 0-dimensional float64 tensors, marked by the suffix `#number`.
    """
    tensors: dict[str, Tensor] = {}
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for name, parameter in zip(names, parameters, strict=True):
        for entry, value in optimizer.state.get(parameter, {}).items():
            if isinstance(value, Tensor):
                tensors[f"optimizer/{name}/{entry}"] = value
            elif value is not None:
                tensors[f"optimizer/{name}/{entry}#number"] = torch.tensor(float(value), dtype=torch.float64)
    return tensors


def load_optimizer_state(optimizer: torch.optim.Optimizer, names: list[str], tensors: Mapping[str, Tensor]) -> None:
    """Set what `optimizer_state` gave. Entries of other parameters are left alone."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    by_name = dict(zip(names, parameters, strict=True))
    for key, value in tensors.items():
        if not key.startswith("optimizer/"):
            continue
        name, entry = key.removeprefix("optimizer/").rsplit("/", 1)
        state = optimizer.state[by_name[name]]
        if entry.endswith("#number"):
            number = float(value)
            state[entry.removesuffix("#number")] = int(number) if number.is_integer() else number
        else:
            # a step count lives beside the parameter only where a fused kernel reads it, as in torch's own loading
            place = by_name[name].device if entry != "step" or optimizer.defaults.get("fused") else CPU
            state[entry] = value.to(place, copy=True)
