"""Feedback: whatever judges: verifiers and reward functions.

The names are loaded when they are used, so that the worker processes that check answers start lean.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from burnish.feedback.build import build
    from burnish.feedback.judge import Feedback
    from burnish.feedback.spec import FeedbackSpec, FormatSpec, FunctionSpec, NumericSpec

_PLACES = {
    "Feedback": "judge", "FeedbackSpec": "spec", "FormatSpec": "spec", "FunctionSpec": "spec", "NumericSpec": "spec",
    "build": "build",
}  # fmt: skip

__all__ = ["Feedback", "FeedbackSpec", "FormatSpec", "FunctionSpec", "NumericSpec", "build"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'burnish.feedback' has no attribute {name!r}")
    return getattr(importlib.import_module(f"burnish.feedback.{_PLACES[name]}"), name)
