"""docs/verifiers.md lists every kind with its keys, and every fault in its words. Its examples run in test_docs.py."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from burnish.feedback.checks.constraints import CONSTRAINTS
from burnish.feedback.reward import MISSING, SCORED
from burnish.feedback.spec import RewardSpec
from burnish.feedback.verifiers.spec import RewardSpecBase

PAGE = (Path(__file__).parents[2] / "docs" / "verifiers.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| `")]
LIMITS = {"time_limit", "memory_limit"}


def test_every_kind_is_listed_with_all_its_keys_and_no_other() -> None:
    specs = {spec.model_fields["kind"].default: spec for spec in get_args(get_args(RewardSpec)[0])}
    listed = {row[0].strip("`"): row[3] for row in ROWS if len(row) == 4}
    assert list(listed) == list(specs)
    for kind, spec in specs.items():
        outside = re.sub(r"\([^)]*\)", "", listed[kind])  # what a key takes stands in brackets
        keys = set(re.findall(r"`(\w+)`", outside)) | (LIMITS if "limits" in outside else set())
        assert keys == set(spec.model_fields) - set(RewardSpecBase.model_fields) - {"kind"}, kind


def test_every_fault_is_listed_in_its_own_words() -> None:
    assert {row[0].strip("`"): row[1] for row in ROWS if len(row) == 2} == {**SCORED, **MISSING}


def test_every_instruction_is_listed() -> None:
    assert set(re.findall(r"`(\w+:\w+)`", PAGE)) == set(CONSTRAINTS)
