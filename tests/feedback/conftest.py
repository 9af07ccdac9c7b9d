"""One pool of workers for all tests of verifiers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from burnish.feedback.workers.pool import Pool


@pytest.fixture(scope="session")
def pool() -> Iterator[Pool]:
    kinds = ("mathematics", "schemas", "tools", "instructions", "choices")
    pool = Pool(2, [*(f"burnish.feedback.checks.{kind}" for kind in kinds), "math_verify", "jsonschema"])
    yield pool
    pool.close()
