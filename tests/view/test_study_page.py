"""The page of a study's results: verdicts, a chart for each task and model, ranks, cost; and the commands of pages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from burnish.cli import app
from burnish.errors import InputError
from burnish.view import write_report
from tests.view.test_report import Page

SIDE = "<script>sft</script>"


def results(folder: Path) -> Path:
    """What `burnish study` writes, with two methods on one task."""
    gains = {"0.5": 0.1, "1": 0.25}
    row = {"model": "S", "task": "sums", "seeds": 3, "unequal": 0, "across": None, "lowest": None}
    cost = {"flops": 2e12, "seconds": 9.0, "flops_per_point": None}
    own = {
        "start": 0.5, "last": {"mean": 0.75, "low": 0.7, "high": 0.8}, "best": 0.8, "last_mean": 0.74, "area": 0.6,
        "drawdown": 0.05, "collapsed": 1, "gains": gains, "curve": [0.5, 0.6, 0.75],
    }  # fmt: skip
    made = {
        "study": "tiny", "question": "Which <b>one</b>?", "command": "burnish study tiny.yaml", "shares": [0, 0.5, 1],
        "declared": {
            "budget": {"amount": 64, "unit": "prompts", "beyond": 2},
            "primary": {"metric": "last", "scope": "in", "direction": "higher", "control": "grpo", "smallest": 0.02},
        },
        "cells": {"wanted": 6, "done": 5, "unequal": 1, "seconds": 90.0},
        "comparisons": [
            {
                "claim": f"{SIDE} against grpo", "model": "S", "metric": "last", "scope": "in", "p": 0.01,
                "interval": {"estimate": 0.125, "low": 0.1, "high": 0.15}, "differences": [0.1, 0.1, 0.2],
                "verdict": "shown", "reason": "",
            }
        ],
        "rows": [
            {**row, "method": SIDE, "cost": cost, "in": {**own, "band": [[0.4, 0.5, 0.7], [0.6, 0.7, 0.8]]}},
            {**row, "method": "grpo", "cost": cost, "in": own},
            {"model": "S", "task": "sums", "method": "none", "seeds": 0},
        ],
        "ranks": [
            {"model": "S", "task": "sums", "last": {SIDE: 1, "grpo": 2}, "area": {"grpo": 1, SIDE: 2}, "agree": False}
        ],
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(made))
    return folder


def test_a_study_has_a_page_with_its_verdicts_and_the_curves_of_its_methods(tmp_path: Path) -> None:
    page = Page(write_report(results(tmp_path), out=tmp_path / "study.html").read_text())
    assert not (tmp_path / "report.html").exists()
    (chart,) = page.data["arms"]
    assert chart["title"] == "sums, S, in distribution"
    assert [arm["name"] for arm in chart["series"]] == [SIDE, "grpo"]
    assert chart["series"][0] == {
        "name": SIDE, "x": [0, 50, 100], "y": [0.5, 0.6, 0.75], "low": [0.4, 0.5, 0.7], "high": [0.6, 0.7, 0.8],
    }  # fmt: skip
    for told in (
        "Which <b>one</b>?", "+0.125+0.100 to +0.150", "shown", "5 of 6 cells are done", "1 spent another budget",
        "another order in 1 of 1 places", "1 of 3", "gain at 50 %", f"{SIDE} (1), grpo (2)", "No rollouts are",
    ):  # fmt: skip
        assert told in page.text, told


def test_results_of_another_kind_are_named(tmp_path: Path) -> None:
    made = json.loads((results(tmp_path) / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps({**made, "rows": [{"seeds": 1}]}))
    with pytest.raises(InputError, match=r"results\.json: not the results of a study .*--table"):
        write_report(tmp_path)


def test_the_commands_write_a_page_and_refuse_what_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    folder = results(tmp_path)
    out = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(folder), "--out", str(out), "--json"])
    assert json.loads(done.stdout) == {"report": str(out), "bytes": out.stat().st_size}
    for command in ("report", "view"):
        refused = CliRunner().invoke(app, [command, str(tmp_path / "empty")])
        assert isinstance(refused.exception, InputError) and "not a run directory" in str(refused.exception)


def test_the_command_serves_a_run_with_what_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("method: sft\n")
    monkeypatch.setattr("burnish.view.live.server.LivePage.wait", lambda page: None)
    monkeypatch.setenv("BURNISH_VIEW_TOKEN", "from-outside")
    done = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0", "--json"])
    assert json.loads(done.stdout)["url"].endswith("/?token=from-outside")
    given = ["--host", "0.0.0.0", "--token", "mine"]
    done = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0", *given])
    assert done.stdout.splitlines()[0].endswith("/?token=mine") and "Ctrl-C" in done.stdout
