"""Which parameters of a network Muon may have, and where those are several maps in one. By class, not by size.

Muon takes the weights of linear maps: attention, feed-forward layers, stacks of experts, low-rank adapters. AdamW takes
embeddings, the vocabulary head (also where it is tied to them), routers, heads with one output, norms and biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from burnish.errors import InputError
from burnish.learning.muon import Blocks

_ROUTERS = ("gate", "router", "wg")
"""Last names of modules that choose experts."""


def muon_plan(network: nn.Module, names: Sequence[str], *, split: bool = True) -> list[Blocks | None]:
    """For each parameter by name its blocks for Muon, or None where it is AdamW's. `split` cuts fused maps apart.

    Raises InputError for a network of which Muon would have nothing.
    """
    modules, config = dict(network.named_modules()), getattr(network, "config", None)
    output = getattr(network, "get_output_embeddings", lambda: None)()
    head = getattr(output, "weight", None)
    tables = {id(m.weight) for m in modules.values() if isinstance(m, nn.Embedding)} | {id(head)}
    parameters = dict(network.named_parameters())
    plan: list[Blocks | None] = []
    for name in names:
        owner = modules[name.rpartition(".")[0]]
        taken = id(parameters[name]) not in tables and _is_map(name, owner, parameters[name], config)
        plan.append(_blocks(name, owner, parameters[name], config, split) if taken else None)
    if not any(plan):
        raise InputError("optimizer.name: muon is for matrices of linear maps, and none of them is trained; use adamw")
    return plan


def _is_map(name: str, owner: nn.Module, weight: Tensor, config: Any) -> bool:
    if min(weight.shape[-2:], default=1) < 2:
        return False
    module = name.split(".")[-2] if "." in name else ""
    if module in _ROUTERS or module.endswith("_router"):
        return False
    if weight.dim() == 3:
        return weight.shape[0] == _experts(config)
    if weight.dim() != 2:
        return False
    if tuple(weight.shape) == (_experts(config), getattr(config, "hidden_size", 0)):
        return False  # a router, however it is called
    return isinstance(owner, (nn.Linear, Conv1D))


def _experts(config: Any) -> int:
    names = ("num_experts", "num_local_experts", "n_routed_experts")
    return next((int(value) for name in names if (value := getattr(config, name, None))), 0)


def _blocks(name: str, owner: nn.Module, weight: Tensor, config: Any, split: bool) -> Blocks:
    transposed = isinstance(owner, Conv1D)
    outputs = weight.shape[-1] if transposed else weight.shape[-2]
    sizes = _fused(name.split(".")[-2], config) if split and weight.dim() == 2 else ()
    whole = (outputs,)
    return Blocks(sizes if sum(sizes) == outputs else whole, transposed)


def _fused(module: str, config: Any) -> tuple[int, ...]:
    """Outputs of the maps that lie one after the other in a module of that name; none for a single map."""
    heads = int(getattr(config, "num_attention_heads", 0) or 0)
    hidden = int(getattr(config, "hidden_size", 0) or 0)
    if module in ("qkv_proj", "c_attn") and heads:
        size = int(getattr(config, "head_dim", None) or hidden // heads)
        groups = int(getattr(config, "num_key_value_heads", None) or heads)
        return heads * size, groups * size, groups * size
    if module == "gate_up_proj":
        width = int(getattr(config, "intermediate_size", 0) or 0)
        return width, width
    return ()
