"""docs/performance.md says what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.publish_performance import RESULTS, pages, tables, written
from burnish.studies.bench.results import load_result
from burnish.studies.bench.spec import AXES, BENCHMARKS
from tests.studies.made_up import made_up


@pytest.mark.parametrize("file", pages(), ids=lambda file: file.name)
def test_the_page_holds_the_tables_of_the_committed_results(file: Path) -> None:
    assert file.read_text("utf-8") == pages()[file], "python -m benchmarks.publish_performance"


def test_the_committed_results_are_results_and_name_no_place_of_a_machine() -> None:
    for file in RESULTS.rglob("*.json"):
        text = file.read_text("utf-8")
        assert not any(place in text for place in ("/tmp", "/root", "/home", "/work")), file
        if not file.stem.startswith(("search-", "profile-")):
            assert load_result(file).name == file.stem


def test_every_figure_of_a_result_reaches_the_tables(tmp_path: Path) -> None:
    floor = {"seconds": 2.0, "phases": {"learn": {"flops": 3e11, "flops_per_second": 1.5e11, "seconds": 2.0}}}
    made_up("grpo-short", [{"ours": 4.0, "trl": 1.25}], floor=floor, seconds=3.0).save(tmp_path / "grpo-short.json")
    made_up("memory", [{"ours": 8e8, "trl": 1e9}]).save(tmp_path / "memory.json")
    made_up("engine-group", [{"ours": 4.0, "generate": 1.0}], absent={"vllm": "no such"}).save(
        tmp_path / "engine-group.json"
    )
    settings = {"batch": 16, "checkpointing": True}
    table = {"work": "less work", "best": {"trl": settings}, "rows": [
        {"peer": "trl", "settings": settings, "seconds": 1.5, "peak_memory": 2e9},
        {"peer": "trl", "settings": {**settings, "batch": 8}, "seconds": None, "note": "broken off after 9 s"},
    ]}  # fmt: skip
    (tmp_path / "search-grpo-short.json").write_text(json.dumps(table))
    (tmp_path / "profile-learner.json").write_text(json.dumps({"shares": {"matrix products": 0.75}}))
    found = tables(tmp_path)
    assert "| grpo-short | ratio at least 3 | 3.2 | met |" in found["targets"]
    assert "| grpo-short | floor_ratio at most 1.6 | 1.5 | met |" in found["targets"]
    assert "| memory | ratio at least 2 | 1.25 | **missed** |" in found["targets"]
    assert "| engine-group | peers.vllm.ratio at least 1.3 | not measured |" in found["targets"]
    assert "| trl | 1.25 (1.25 to 1.25) | 3.20 | 1.00; 1.00 |" in found["figures"]
    assert "vllm | not measured: no such" in found["figures"]
    assert "| grpo-short | learn | 300 | 150 | 2.00 | |" in found["floors"]
    assert "| grpo-short | all | | | 2.00 | 1.50 |" in found["floors"]
    assert "| trl | batch 16, checkpointing on | 1.50 | 2.00 | taken |" in found["searches"]
    assert "| - | - | broken off after 9 s |" in found["searches"]
    assert "| matrix products | 75.0% |" in found["profiles"] and "abacus, 2 cores, 8 GB" in found["machine"]


def test_a_page_without_the_markers_is_refused() -> None:
    page = "a <!-- measured: x -->old<!-- end of x --> b"
    assert written(page, "x", "new") == "a <!-- measured: x -->\n\nnew\n\n<!-- end of x --> b"
    with pytest.raises(ValueError, match="the page has no"):
        written("a", "x", "new")


def test_the_page_explains_every_benchmark_and_every_search() -> None:
    text = (RESULTS.parents[2] / "docs" / "performance.md").read_text("utf-8")
    assert [name for name in BENCHMARKS if f"**{name}" not in text and f", {name}**" not in text] == []
    assert {name for name, _ in AXES} <= set(BENCHMARKS)
