"""Burnish: post-training of language models in one small grammar.

`import burnish` is quick and imports no torch: the public names below are loaded from their rooms when first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES: dict[str, str] = {
    "Group": "burnish.traces",
    "Learner": "burnish.learning.learner",
    "LocalEngine": "burnish.sampling",
    "load_model": "burnish.models.loading",
    "train": "burnish.api",
    "InputError": "burnish.errors",
    "PromiseError": "burnish.errors",
    "RunError": "burnish.errors",
    "Span": "burnish.traces",
    "Trace": "burnish.traces",
    "Verdict": "burnish.traces",
}
"""Public name -> the module it lives in."""

__all__ = ["__version__", *_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'burnish' has no attribute {name!r}; it has: {', '.join(sorted(_HOMES))}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use does not come here
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
