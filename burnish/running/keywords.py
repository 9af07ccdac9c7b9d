"""Keys of a recipe as Python keyword arguments: `optimizer__lr=1e-5` is the override "optimizer.lr=1e-5"."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def overrides_of(keys: Mapping[str, Any]) -> list[str]:
    """The overrides that keyword arguments stand for; two underscores are the dot."""
    return [f"{key.replace('__', '.')}={json.dumps(value, default=str)}" for key, value in keys.items()]
