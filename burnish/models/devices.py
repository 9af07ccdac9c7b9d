"""Where tensors live: the only file that knows devices by name.

Everything else asks a tensor or a model for its device and makes its tensors there. What a GPU wants otherwise than a
CPU (which attention, how large a chunk of logits) is decided here as well. Nothing in this file has run on a GPU yet;
docs/gpu.md says what has been checked and how.
"""

from __future__ import annotations

import torch
from torch import Tensor

from burnish.errors import InputError

CPU = torch.device("cpu")
"""The machine's own memory."""

_CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 26}
"""Logits held at once: 64 MiB in float32 on a CPU. A GPU needs more rows to be busy: 441 of Qwen3's 151,936 logits."""

_FLEX_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_FLEX_HEAD = 16
"""Triton's matrix products start at 16 columns."""


def resolve_device(name: str) -> torch.device:
    """The torch device of a name; auto is the GPU when there is one. Raises InputError for one that is not there."""
    if name == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else CPU
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"unknown device {name!r}: choose auto, cpu, cuda or cuda:N") from error
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise InputError(f"device {name!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices")
    return device


def on_gpu(device: torch.device) -> bool:
    """Whether a device has memory of its own, which the machine's does not count."""
    return device.type != "cpu"


def wait(device: torch.device) -> None:
    """Return when everything that was asked of a device is done. Only a clock needs this."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def device_title(device: torch.device) -> str:
    """The name a person knows a device by."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def free_on_gpu(device: torch.device) -> int:
    """Bytes of a GPU's memory that can still be had."""
    return torch.cuda.mem_get_info(device)[0]


def chunk_elements(device: torch.device) -> int:
    """Logits that the vocabulary head may hold at once on a device."""
    return _CHUNK_ELEMENTS.get(device.type, _CHUNK_ELEMENTS["cuda"])


def flex_serves(query: Tensor, value: Tensor) -> bool:
    """Whether FlexAttention's kernels compute an attention: on CUDA, for its number types and head sizes.

    Elsewhere the forest's own calls do: they are plain PyTorch and run on every device, float64 included.
    """
    sizes = query.shape[-1] >= _FLEX_HEAD and value.shape[-1] >= _FLEX_HEAD
    return query.device.type == "cuda" and query.dtype in _FLEX_TYPES and sizes
