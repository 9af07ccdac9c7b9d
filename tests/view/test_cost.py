"""The cost section of a report: the ledger's totals, and before there are any the sums over the steps."""

from __future__ import annotations

import json
from pathlib import Path

from burnish.view.cost import cost_section
from burnish.view.record import read_run
from tests.view.runs import HOSTILE, write_run

STEPS = [
    {"step": 1, "prompts": 2, "samples": 8, "trained_tokens": 0.0, "ledger/reference/flops": 4 * 10**12, "loss": None},
    {"step": 2, "prompts": 2, "samples": 8, "trained_tokens": 900, "ledger/reference/flops": 10**12,
     "timing/ledger/policy/seconds": 3.25, "ledger/reference/apples": 1, "ledger/reference/scored_tokens": None},
]  # fmt: skip


def test_a_run_that_is_not_over_shows_the_sums_of_its_steps(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in STEPS))
    section = cost_section(read_run(tmp_path))
    assert "<th>prompts<th>rollouts<th>tokens trained<th>operations<th>wall time</tr>" in section
    assert "<th>policy<td>4<td>16<td>900<td><td>3.2 s</tr>" in section
    assert "<th>reference<td><td><td><td>5.00 TFLOP<td></tr>" in section and "apples" not in section


def test_a_finished_run_shows_the_totals_of_its_summary(tmp_path: Path) -> None:
    ledger = {HOSTILE: {"judge_calls": 1234567}, "run": {"timing/seconds": 600.0}}
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in STEPS))
    (tmp_path / "summary.json").write_text(json.dumps({"ledger": ledger}))
    section = cost_section(read_run(tmp_path))
    assert "<td>1,234,567<td></tr>" in section and "<th>run<td><td>10.0 min</tr>" in section
    assert "rollouts" not in section and "<script" not in section


def test_a_run_without_counts_has_no_cost_section(tmp_path: Path) -> None:
    assert cost_section(read_run(write_run(tmp_path / "run"))) == ""
