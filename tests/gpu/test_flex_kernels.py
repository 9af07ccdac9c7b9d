"""The compiled FlexAttention kernels, forward and backward, against the forest's own calls."""

from __future__ import annotations

import pytest
import torch

from burnish.models.devices import on_gpu
from burnish.models.flex import flex_attend
from burnish.models.forest import Forest
from tests.models.test_flex import random_forest

BOUNDS = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


def run(
    forest: Forest, flexed: bool, inputs: list[torch.Tensor], **arguments: float | int | None
) -> list[torch.Tensor]:
    """The output, and on a GPU the gradients of its inputs: on a CPU FlexAttention has none."""
    device, place = inputs[0].device, torch.device("cpu") if not flexed else inputs[0].device
    there = Forest(forest.tokens.to(place), forest.positions.to(place), forest.slots)
    # the reference is computed in float64, on the CPU
    query, key, value = (x.to(place, None if flexed else torch.float64).requires_grad_(on_gpu(device)) for x in inputs)
    if flexed:
        output = flex_attend(there, query, key, value, **arguments)  # type: ignore[arg-type]
    else:
        output = there.attend(0, query, key, value, **arguments)  # type: ignore[arg-type]
    found = [output]
    if on_gpu(device):
        weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view(output.shape)
        (output * weights.to(place, output.dtype)).sum().backward()
        found += [x.grad for x in (query, key, value) if x.grad is not None]
    return [x.detach().double().cpu() for x in found]


@pytest.mark.parametrize("dtype", BOUNDS, ids=str)
@pytest.mark.parametrize("size", [16, 64, 128])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_the_kernels_agree_with_the_forests_own_calls(
    device: torch.device, softcap: float | None, size: int, dtype: torch.dtype
) -> None:
    for seed, slots, longest, window in ((0, 9, 90, None), (2, 4, 400, 60), (4, 12, 130, None), (1, 12, 130, 60)):
        forest = random_forest(seed, slots, longest)
        generator = torch.Generator().manual_seed(seed)
        shapes = [(1, heads, len(forest), size) for heads in (4, 2, 2)]
        inputs = [torch.randn(s, generator=generator).to(device, dtype) for s in shapes]
        arguments = {"scaling": 0.8 * size**-0.5, "window": window, "softcap": softcap}
        found, expected = (run(forest, flexed, inputs, **arguments) for flexed in (True, False))
        assert len(found) == len(expected) == (4 if on_gpu(device) else 1)
        for ours, reference in zip(found, expected, strict=True):
            assert float((ours - reference).norm() / reference.norm()) < BOUNDS[dtype]
