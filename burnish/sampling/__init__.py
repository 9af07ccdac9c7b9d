"""Sampling: the sampler protocol and the local engine. Importing the room imports no torch; the engine does."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from burnish.sampling.protocol import Completion, Finish, Sampler, SamplingParams
from burnish.sampling.spec import SamplingSpec

if TYPE_CHECKING:
    from burnish.sampling.engine import LocalEngine

__all__ = ["Completion", "Finish", "LocalEngine", "Sampler", "SamplingParams", "SamplingSpec"]


def __getattr__(name: str) -> Any:
    if name != "LocalEngine":
        raise AttributeError(f"module 'burnish.sampling' has no attribute {name!r}")
    return importlib.import_module("burnish.sampling.engine").LocalEngine
