"""How torch computes during a run: its threads, and in deterministic mode only kernels that give equal bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from burnish.methods.recipe import Recipe


@contextmanager
def computing(recipe: Recipe) -> Iterator[None]:
    """torch as the recipe asks for it (`threads`, `deterministic`) while the block runs, then as it was.

    An operation that has no deterministic kernel on the device raises RuntimeError in deterministic mode.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    try:
        if recipe.threads is not None:
            torch.set_num_threads(recipe.threads)
        if recipe.deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS sums in a fixed order only with it
            torch.use_deterministic_algorithms(True)
        yield
    finally:
        torch.use_deterministic_algorithms(strict)
        torch.set_num_threads(threads)
