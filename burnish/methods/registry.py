"""The methods by name."""

from __future__ import annotations

from burnish.methods.grpo import GRPO
from burnish.methods.method import Method
from burnish.methods.sft import SFT

METHODS: dict[str, Method] = {method.name: method for method in (SFT, GRPO)}
"""Every method, by the name a recipe gives."""
