"""The checks of a GPU: `pytest tests/gpu`, which benchmarks/gpu.sh runs. They are no part of the default collection.

With `--device cpu` the same code compares the CPU with itself, which keeps it from rotting (tests/test_gpu_checks.py).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from burnish.models.devices import on_gpu, resolve_device


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--device", default="cuda", help="what to compare with the CPU: cuda, cuda:N, or cpu")


@pytest.fixture(scope="session")
def device(pytestconfig: pytest.Config) -> Iterator[torch.device]:
    """The device to check. Where it is not there every test fails: nothing would have been checked."""
    found = resolve_device(pytestconfig.getoption("--device"))
    torch._dynamo.config.recompile_limit = 64  # all types, caps and sizes pass through one function here
    if on_gpu(found):
        assert not torch.backends.cuda.matmul.allow_tf32, "TF32 products would not agree with the CPU's"
    yield found
