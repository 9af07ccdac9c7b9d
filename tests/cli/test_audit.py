"""`burnish audit`: levels for a person, JSON for a program, and exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from burnish.cli import main
from tests.studies.audited import write_run
from tests.studies.test_audits import hacking_from


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["audit", *words])
    return int(end.value.code or 0)


def test_a_clean_run_ends_with_0_and_a_fault_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean, hacked = write_run(tmp_path / "clean"), write_run(tmp_path / "hacked", hacking_from(3))
    assert run(str(clean), "--only", "hacking", "--only", "gap") == 0
    shown = capsys.readouterr().out
    assert "hacking" in shown and "cannot tell" in shown and f"{clean}: ok" in shown and "diversity" not in shown
    assert run(str(hacked)) == 1
    shown = capsys.readouterr().out
    assert "cheap_text" in shown and "share_of_reward: 0.750 [" in shown and f"{hacked}: fault" in shown
    assert "update" in shown and "not measured" in shown  # its model is not there
    assert run(str(hacked), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["level"] == "fault" and found["findings"][0]["figures"][0]["name"] == "share_of_reward"


def test_what_cannot_be_audited_ends_with_2_and_the_fix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clean = write_run(tmp_path / "clean", steps=1)
    for words, said in (
        ((str(tmp_path / "none"),), "no such run directory"),
        ((str(tmp_path),), "not a run directory"),
        ((str(clean), "--only", "gaps"), "did you mean 'gap'?"),
        ((str(clean), "--only", "crossover"), "add --models"),
        ((str(clean), "--checkpoint", "5"), "no whole checkpoint of step 5; there are: none"),
        ((str(clean), "--tasks", "0"), "--tasks"),
    ):
        assert run(*words) == 2, words
        assert said in capsys.readouterr().err
