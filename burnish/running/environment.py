"""What the bits of a run depend on besides its recipe: versions, threads, the processor."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

import torch
import transformers

import burnish
from burnish.models.devices import device_title

Environment = Mapping[str, str | int]


def environment(device: torch.device) -> dict[str, str | int]:
    """The versions and the machine that a run's bits depend on."""
    return {
        "burnish": burnish.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "processor": _processor(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "device": device_title(device),
    }


def differences(before: Environment, now: Environment) -> list[str]:
    """What is not as it was, in words: "torch 2.13.0 -> 2.14.0"."""
    return [f"{key} {before.get(key)} -> {now.get(key)}" for key in now if before.get(key) != now.get(key)]


def _processor() -> str:
    """The processor's model name: Linux tells it in a file, elsewhere the platform module knows what it can."""
    description = Path("/proc/cpuinfo")
    if description.is_file():
        for line in description.read_text("utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
