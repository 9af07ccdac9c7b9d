"""Environments: what a task happens in, and the sandbox that runs what a model wrote. No torch.

The names are loaded when they are used, so that what runs inside of a sandbox starts lean.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.environments.protocol import (
        Action,
        Attempt,
        Call,
        Environment,
        Observation,
        passed,
        result,
        said,
        showed,
        tool,
    )
    from burnish.environments.registry import build

_PLACES = {
    "Action": "protocol", "Attempt": "protocol", "Call": "protocol", "Environment": "protocol",
    "Observation": "protocol", "build": "registry", "passed": "protocol", "result": "protocol", "said": "protocol",
    "showed": "protocol", "tool": "protocol",
}  # fmt: skip

__all__ = [
    "Action",
    "Attempt",
    "Call",
    "Environment",
    "Observation",
    "build",
    "passed",
    "result",
    "said",
    "showed",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'burnish.environments' has no attribute {name!r}")
    return getattr(importlib.import_module(f"burnish.environments.{_PLACES[name]}"), name)
