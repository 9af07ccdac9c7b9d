"""What a filter keeps, and what happens to a pipeline's directory."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from burnish import InputError, RunError, show_pipeline
from burnish.running.lock import Lock
from burnish.running.pipelines.datasets import Dataset, note_text
from burnish.traces import CONTEXT, Author, Group, Role, Span, Status, Trace, Verdict
from tests.running.pipeline_work import run


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    eight_samples(Path("given"))


ONLY = {"nodes": {"kept": {"filter": {"data": "given"}}}}


def eight_samples(folder: Path) -> None:
    """A dataset of two groups of four: rewards 0, 1, 2, missing; number 1 is truncated, 5 says what 4 says."""
    groups = []
    for key in range(2):
        trace = Trace(f"t{key}", {"prompt": f"p{key}"})
        root = trace.add(-1, [1, 2], CONTEXT, Role.PROMPT)
        members = []
        for place, reward in enumerate((0.0, 1.0, 2.0, None)):
            number = 4 * key + place
            finish = "length" if number == 1 else "stop"
            leaf = trace.add(root, [3], Author.model("policy", 0), Role.ANSWER, [-1.0], meta={"finish": finish})
            verdict = Verdict.missing(Status.VOID, "none") if reward is None else Verdict(reward)
            members.append(Span(trace, leaf, verdict=verdict))
            note_text(members[-1], "4" if number == 5 else str(number))
        groups.append(Group(f"g{key}", members, columns={"number": key}))
    for number, group in enumerate(groups):
        Dataset(folder).write(number, [group])
    Dataset(folder).write_rows()


@pytest.mark.parametrize(
    ("conditions", "left"),
    [
        ({}, "0 1 2 4 4 6"),
        ({"drop_truncated": True}, "0 2 4 4 6"),
        ({"min_reward": 1}, "1 2 4 6"),
        ({"max_reward": 1}, "0 1 4 4"),
        ({"min_reward": 1, "max_reward": 1}, "1 4"),
        ({"best": 1}, "2 6"),
        ({"best": 2}, "1 2 4 6"),
        ({"distinct": True}, "0 1 2 4 6"),
        ({"distinct": True, "best": 2}, "1 2 4 6"),
        ({"at_most": 4}, "0 1 2 4"),
        ({"drop_equal_rewards": True}, "0 1 2 4 4 6"),
    ],
)
def test_every_condition_of_a_filter_keeps_what_it_says(conditions: dict[str, Any], left: str) -> None:
    spec = {"data": "given", "drop_truncated": False, **conditions}
    result = run(pipeline={"nodes": {"kept": {"filter": spec}}})["kept"]
    lines = [json.loads(line) for line in (result.artefact.path / "rows.jsonl").read_text().splitlines()]
    assert " ".join(line["completion"] for line in lines) == left
    assert result.result["kept"] == len(lines) and result.result["samples"] == 8
    assert sum(result.result["dropped"].values()) == 8 - len(lines)


def test_groups_without_two_different_rewards_are_dropped_when_asked() -> None:
    [group] = Dataset(Path("given")).read(1)
    for member in group.members:
        member.verdict = Verdict(1.0)
    Dataset(Path("given")).write(1, [group])
    result = run(pipeline={"nodes": {"kept": {"filter": {"data": "given", "drop_equal_rewards": True}}}})["kept"]
    assert result.result["dropped"] == {"reward missing": 1, "truncated": 1, "equal rewards": 4}


def test_a_filter_that_leaves_nothing_says_what_dropped_it() -> None:
    with pytest.raises(
        RunError, match=r"node kept: none of the 8 samples is left \(5 below min_reward, 2 reward missing"
    ):
        run(pipeline={"nodes": {"kept": {"filter": {"data": "given", "min_reward": 3}}}})


# ---------------------------------------------------------------- the directory


def test_two_pipelines_in_one_directory_are_refused() -> None:
    Path("out").mkdir()
    lock = Lock(Path("out/.lock"))
    with pytest.raises(InputError, match=r"another pipeline runs in out \(process \d+\)"):
        run(pipeline=ONLY)
    lock.release()
    assert run(pipeline=ONLY).made == ["kept"]
    with pytest.raises(InputError, match=r"given holds other things than a pipeline's \(rows.jsonl, ...\)"):
        run(pipeline=ONLY, out="given")
    Path("file").touch()
    with pytest.raises(InputError, match="is a file, or lies below one"):
        run(pipeline=ONLY, out="file/out")


def test_an_artefact_that_was_changed_afterwards_is_refused() -> None:
    made = run(pipeline=ONLY)["kept"].artefact.path
    with (made / "rows.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(InputError, match=r"kept-\w+ is not what the pipeline made.*[Mm]ove .* away"):
        run(pipeline=ONLY)
    shutil.rmtree(made)
    assert run(pipeline=ONLY).made == ["kept"]


def test_a_write_that_the_disk_refuses_fails_the_node_and_leaves_it_to_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:

        def full(self: Dataset) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

        patched.setattr(Dataset, "write_rows", full)
        with pytest.raises(
            RunError, match=r"node kept: out/artefacts/kept-\w+ could not be written .*is the disk full"
        ):
            run(pipeline=ONLY)
    assert json.loads(Path("out/pipeline.json").read_text())["nodes"]["kept"]["status"] == "half done"
    assert run(pipeline=ONLY).made == ["kept"]


def test_damaged_provenance_is_told_with_the_way_out() -> None:
    made = run(pipeline=ONLY)["kept"].artefact.path
    (made / "provenance.json").write_text('{"format": 1')
    with pytest.raises(InputError, match=r"provenance.json is damaged .* move out/artefacts/kept-\w+ away"):
        show_pipeline(ONLY, out="out")
