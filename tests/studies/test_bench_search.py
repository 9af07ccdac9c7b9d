"""The search keeps what is faster, never what changes the work, and says what it did not try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.studies.bench import search as searching
from burnish.studies.bench.search import best_settings
from burnish.studies.bench.spec import BENCHMARKS, Settings, benchmark
from tests.cli.commands import ROOT

FOLDER = ROOT / "benchmarks" / "results" / "bench"


def seconds_of(settings: Settings) -> float | None:
    """A peer that is quickest with 16 rows and recomputation, and fails to compile."""
    if settings["compile"]:
        return None
    slow = {32: 3.0, 16: 1.0, 8: 2.0, 4: 4.0, 64: 5.0}.get(settings["batch"], 6.0)
    return slow + (1.0 if not settings.get("checkpointing", True) else 0.0) + (settings["dtype"] == "bfloat16") * 9


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """Trials answer at once; the settings that were tried."""
    tried: list[Settings] = []

    def trial(self: Any, settings: Settings, best: float) -> dict[str, Any]:
        tried.append(settings)
        found = seconds_of(settings)
        return {"seconds": found} if found else {"seconds": None, "note": "failed: no compiler"}

    monkeypatch.setattr(searching._Trials, "seconds", trial)
    return tried


def test_one_setting_at_a_time_and_the_best_is_kept(pretended: list[Settings], tmp_path: Path) -> None:
    table = burnish.bench_search("grpo-short", results=tmp_path)
    best = table["best"]["trl"]
    assert (best["batch"], best["checkpointing"], best["dtype"], best["compile"]) == (16, True, "float32", False)
    tried = [tuple(settings.items()) for settings in pretended]
    assert len(table["rows"]) == len(tried) == len(set(tried)) and {row["changed"] for row in table["rows"]} >= {
        "batch",
        "dtype",
    }
    assert [row["note"] for row in table["rows"] if row["settings"]["compile"]] == ["failed: no compiler"]
    assert json.loads((tmp_path / "search-grpo-short.json").read_text()) == table
    assert table["work"].startswith("4 prompts")  # half of the whole


def test_the_best_is_what_later_runs_and_searches_begin_with(pretended: list[Settings], tmp_path: Path) -> None:
    assert best_settings(tmp_path, benchmark("grpo-short"), "trl")["batch"] == 32
    burnish.bench_search("grpo-short", results=tmp_path)
    for name in ("grpo-short", "memory", "grpo-long"):
        assert best_settings(tmp_path, benchmark(name), "trl")["batch"] == 16, name
    assert best_settings(tmp_path, benchmark("sft-mixed"), "trl")["batch"] == 32


def test_settings_that_change_the_work_are_tried_and_never_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(searching._Trials, "seconds", lambda self, s, best: {"seconds": 1.0 + s["logprobs"]})
    table = burnish.bench_search("engine-group", results=tmp_path)
    assert table["best"]["generate"]["logprobs"] is True
    assert any(row["settings"]["logprobs"] is False for row in table["rows"])


def test_what_there_was_no_time_for_is_in_the_table(pretended: list[Settings], tmp_path: Path) -> None:
    with pytest.raises(burnish.RunError, match="no settings of trl worked: not tried"):
        burnish.bench_search("grpo-short", results=tmp_path, limit=-1.0)
    assert not pretended and not list(tmp_path.iterdir())


def tried_in(folder: Path, name: str = "search-grpo-short") -> int:
    rows = json.loads((folder / f"{name}.json").read_text())["rows"]
    return sum(row["seconds"] is not None for row in rows)


def test_a_search_that_tried_less_does_not_replace_what_another_found(
    pretended: list[Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    burnish.bench_search("grpo-short", results=tmp_path)
    before, told = tried_in(tmp_path), []
    clock = iter([0.0, 0.0, *[1000.0] * 100])  # time for one trial
    monkeypatch.setattr(searching.time, "perf_counter", lambda: next(clock))
    table = burnish.bench_search("grpo-short", results=tmp_path, tell=told.append)
    assert sum(row["seconds"] is not None for row in table["rows"]) == 1
    assert tried_in(tmp_path) == before > 1 and "this one 1" in told[-1]
    monkeypatch.undo()


def test_a_peer_that_is_left_out_keeps_what_was_found_of_it(pretended: list[Settings], tmp_path: Path) -> None:
    burnish.bench_search("engine-group", results=tmp_path, threads=1)
    file = tmp_path / "search-engine-group.json"
    table = json.loads(file.read_text())
    assert {row["settings"]["threads"] for row in table["rows"]} == {1}  # asked for, so not searched
    row = {"peer": "vllm", "settings": {"openmp": "intel"}, "changed": None, "seconds": 1.0}
    file.write_text(json.dumps({**table, "best": {**table["best"], "vllm": {"openmp": "intel"}},
                                "rows": [*table["rows"], row]}))  # fmt: skip
    burnish.bench_search("engine-group", results=tmp_path)
    again = json.loads(file.read_text())
    assert row in again["rows"] and set(again["best"]) == {"generate", "vllm"}
    elsewhere = {**table, "machine": {**table["machine"], "processor": "abacus"}}
    file.write_text(json.dumps(elsewhere))
    burnish.bench_search("engine-group", results=tmp_path)
    assert json.loads(file.read_text())["machine"] == again["machine"] | {"load_before": pytest.approx(0, abs=1e3)}


def test_a_search_on_small_work_has_a_file_of_its_own(pretended: list[Settings], tmp_path: Path) -> None:
    burnish.bench_search("grpo-short", results=tmp_path, small=True)
    assert [path.name for path in tmp_path.iterdir()] == ["search-grpo-short-small.json"]
    found = {size: best_settings(tmp_path, benchmark("grpo-short"), "trl", small=size) for size in (False, True)}
    assert (found[False]["batch"], found[True]["batch"]) == (32, 16)


def test_a_table_of_other_work_is_refused_and_a_new_search_passes_it_over(
    pretended: list[Settings], tmp_path: Path
) -> None:
    burnish.bench_search("grpo-short", results=tmp_path)
    file = tmp_path / "search-grpo-short.json"
    table = json.loads(file.read_text())
    file.write_text(json.dumps({**table, "work": "1 prompts x 8 samples", "best": {"trl": {"batch": 4}}}))
    with pytest.raises(burnish.InputError, match=r"searched on other work \(1 prompts .*`burnish bench search grpo-s"):
        burnish.bench("memory", results=tmp_path)
    assert burnish.bench_search("grpo-short", results=tmp_path)["rows"][0]["settings"]["batch"] == 32
    assert best_settings(tmp_path, benchmark("memory"), "trl")["batch"] == 16


def test_the_threads_that_are_asked_for_are_those_of_the_peer_too(pretended: list[Settings], tmp_path: Path) -> None:
    burnish.bench_search("grpo-short", results=tmp_path)
    file = tmp_path / "search-grpo-short.json"
    table = json.loads(file.read_text())
    table["best"]["trl"]["threads"] = 7
    file.write_text(json.dumps(table))
    short = benchmark("grpo-short")
    assert best_settings(tmp_path, short, "trl")["threads"] == 7
    assert best_settings(tmp_path, short, "trl", 3)["threads"] == 3
    table["machine"]["cores"] += 1  # what was best there says nothing of here
    file.write_text(json.dumps(table))
    assert best_settings(tmp_path, short, "trl")["threads"] == searching.cores()


def test_the_committed_tables_are_of_the_work_that_is_searched() -> None:
    for name, bench in BENCHMARKS.items():
        for peer in bench.peers:
            assert best_settings(FOLDER, bench, peer)["batch" if peer != "vllm" else "openmp"], name


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        burnish.InputError, match="memory has no settings of a peer to search; it takes those of grpo-short"
    ):
        burnish.bench_search("memory", results=tmp_path)
    (tmp_path / "search-grpo-short.json").write_text("{}")
    with pytest.raises(burnish.InputError, match="is no table of a search"):
        best_settings(tmp_path, benchmark("grpo-short"), "trl")
