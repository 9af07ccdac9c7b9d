"""What the audits refuse, each with its file and the fix, and what they leave unmeasured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import burnish
from burnish.running.directory import RunDirectory
from burnish.studies.audits import AUDITS
from tests.studies.audited import STEPS, write_run
from tests.studies.test_audits import RECORDS


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(tmp_path_factory.mktemp("audits") / "clean")


def refused(run: Path, match: str, only: Sequence[str] = (), **options: int) -> None:
    with pytest.raises(burnish.InputError, match=match):
        burnish.audit(run, only, **options)  # pyright: ignore[reportArgumentType]


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    refused(tmp_path / "none", r"none: no such run directory")
    (tmp_path / "other").mkdir()
    refused(tmp_path / "other", r"not a run directory, it has neither config.yaml nor metrics.jsonl")


@pytest.mark.parametrize("line", ["{", '{"loss": 1}', "[1]", '"x"', "\x00\xff", '{"step": "a"}'])
def test_a_corrupted_line_of_metrics_is_named(tmp_path: Path, line: str) -> None:
    run = write_run(tmp_path / "run", groups=0)
    file = run / "metrics.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:3], line, *lines[3:]]) + "\n", encoding="latin-1")
    refused(run, r"metrics.jsonl, line 4: not a record with a step")


def test_a_line_that_is_being_written_is_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", groups=0)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "rew')
    assert burnish.audit(run, "gap").read["steps"] == STEPS
    with (run / "metrics.jsonl").open("a") as file:
        file.write("\n")  # whoever ends the line says that it is whole
    refused(run, "line 5")


def test_damaged_traces_and_configurations_are_named(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "traces" / "step-000002.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    refused(run, "step-000002.parquet")
    file.unlink()
    (run / "config.yaml").write_text("- 1\n")
    refused(run, r"config.yaml: a configuration is a mapping")


def test_an_audit_that_has_nothing_to_measure_says_so_and_is_refused_when_it_was_named(tmp_path: Path) -> None:
    directory, _ = RunDirectory.claim(tmp_path / "run")
    directory.write_config("method: sft\nmodel: {path: base}\n")
    directory.append_metrics({"step": 1})
    directory.close()
    report = burnish.audit(tmp_path / "run")
    assert {f.level for f in report.findings} == {None} and report.level is None
    assert all(f.says for f in report.findings)
    assert json.dumps(report.to_json(), allow_nan=False)
    for name in RECORDS:
        refused(tmp_path / "run", f"audit '{name}' has nothing to measure", [name])


def test_wrong_names_and_numbers_are_refused(clean: Path) -> None:
    refused(clean, "there is no audit 'hakcing'; did you mean 'hacking'", ["hakcing"])
    refused(clean, "add --models", ["transfer"])
    refused(clean, "tasks: given 0", tasks=0)
    refused(clean, r"no whole checkpoint of step 7; there are: none", ["update"], checkpoint=7)
    assert set(RECORDS) < set(AUDITS)
    assert [f.audit for f in burnish.audit(clean, "gap, length").findings] == ["length", "gap"]
