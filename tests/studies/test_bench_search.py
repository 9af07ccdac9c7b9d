"""The search keeps what is faster, never what changes the work, and says what it did not try."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import burnish
from burnish.studies.bench import search as searching
from burnish.studies.bench.search import best_settings
from burnish.studies.bench.spec import Settings, benchmark


def seconds_of(settings: Settings) -> float | None:
    """A peer that is quickest with 16 rows and recomputation, and fails to compile."""
    if settings["compile"]:
        return None
    slow = {32: 3.0, 16: 1.0, 8: 2.0, 4: 4.0, 64: 5.0}[settings["batch"]]
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


def test_what_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        burnish.InputError, match="memory has no settings of a peer to search; it takes those of grpo-short"
    ):
        burnish.bench_search("memory", results=tmp_path)
    (tmp_path / "search-grpo-short.json").write_text("{}")
    with pytest.raises(burnish.InputError, match="is no table of a search"):
        best_settings(tmp_path, benchmark("grpo-short"), "trl")
