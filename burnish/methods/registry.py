"""The methods by name."""

from __future__ import annotations

from burnish.methods.grpo import GRPO
from burnish.methods.method import Method
from burnish.methods.presets import PRESETS
from burnish.methods.sft import SFT

METHODS: dict[str, Method] = {method.name: method for method in (SFT, GRPO, *PRESETS)}
"""Every method, by the name a recipe gives."""

DECLARED: tuple[str, ...] = tuple(name for name, method in METHODS.items() if method.preset_of is None)
"""Those with a declaration of their own; the others are presets of one of them."""
