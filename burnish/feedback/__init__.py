"""Feedback: whatever judges: verifiers and reward functions."""

from burnish.feedback.build import build
from burnish.feedback.judge import Feedback
from burnish.feedback.spec import FeedbackSpec, FormatSpec, FunctionSpec, NumericSpec

__all__ = ["Feedback", "FeedbackSpec", "FormatSpec", "FunctionSpec", "NumericSpec", "build"]
