"""The floor's side: how fast this machine multiplies matrices of the model's own shapes, and nothing else."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from channel import Channel
from torch import Tensor, nn

BRIEFLY = 0.04
"""Seconds that one measurement of a product takes at least."""


def main() -> None:
    """The rate of each kind of pass, in operations a second, and what the model's arithmetic is in each phase."""
    job, channel = Channel.job(), Channel()
    from burnish.models.flops import ModelFlops
    from burnish.models.loading import load_model
    from burnish.models.spec import ModelSpec

    model = load_model(ModelSpec(path=job["model"], dtype=job["dtype"]))
    layers, head = linear_weights(model.backbone), linear_weights(model.head.projection)
    flops = ModelFlops.of(model)
    counted = [
        {
            "name": phase["name"],
            "flops": (flops.training if phase["backward"] else flops.forward)(
                [tuple(run) for run in phase["runs"]], phase["projected"]
            ),
        }
        for phase in job["phases"]
    ]

    def work(number: int) -> dict[str, Any]:
        rates = [rate(layers, head, phase) for phase in job["phases"]]
        return {"rates": rates}

    parameters = {id(p): p for p in model.network.parameters()}.values()
    held = sum(p.numel() * p.element_size() for p in parameters)
    channel.serve(work, phases=counted, parameter_bytes=held)


def linear_weights(module: nn.Module) -> dict[tuple[int, int], list[Tensor]]:
    """The weights [out, in] of every linear layer under a module, by shape."""
    found: dict[tuple[int, int], list[Tensor]] = defaultdict(list)
    for part in module.modules():
        if isinstance(part, nn.Linear):
            found[(part.weight.shape[0], part.weight.shape[1])].append(part.weight.detach())
    return dict(found)


def rate(
    layers: dict[tuple[int, int], list[Tensor]], head: dict[tuple[int, int], list[Tensor]], phase: dict[str, Any]
) -> float:
    """Operations a second over all linear products of a phase, each at its best: total operations / total seconds.

    `rows` tokens at a time pass the layers, `head_rows` the vocabulary head, which takes `projected` of `tokens`.
    """
    operations, seconds = 0.0, 0.0
    share = phase["projected"] / phase["tokens"]
    for weights, rows, weight in ((layers, phase["rows"], 1.0), (head, phase["head_rows"], share)):
        for shape, same in weights.items():
            for product in products(same, shape, rows, phase["backward"]):
                # per token, so that layers and head count by how often they are passed
                operations += weight * len(same) * 2 * shape[0] * shape[1]
                seconds += weight * len(same) * best(product, len(same)) / rows
    return operations / seconds


def products(weights: list[Tensor], shape: tuple[int, int], rows: int, backward: bool) -> list[Callable[[int], Tensor]]:
    """The products of a linear layer, with the i-th weight of its shape: forward, and both of the backward pass."""
    out, inner = shape
    inputs, outputs = torch.randn(rows, inner, dtype=weights[0].dtype), torch.randn(rows, out, dtype=weights[0].dtype)
    found: list[Callable[[int], Tensor]] = [lambda i: F.linear(inputs, weights[i])]
    if backward:
        found += [lambda i: outputs @ weights[i], lambda i: outputs.T @ inputs]
    return found


@torch.no_grad()
def best(product: Callable[[int], Tensor], count: int, repeats: int = 4) -> float:
    """Least seconds of one product, over some runs through the model's weights of that shape."""
    product(0)
    least = float("inf")
    for _ in range(repeats):
        done, started = 0, time.perf_counter()
        while done < 2 or time.perf_counter() - started < BRIEFLY:
            product(done % count)
            done += 1
        least = min(least, (time.perf_counter() - started) / done)
    return least


if __name__ == "__main__":
    main()
