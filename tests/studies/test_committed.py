"""The committed studies: their tables follow from their cells, and the pages of the documents have those tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from benchmarks.study_page import page
from burnish.comparing import RESULTS, study
from burnish.methods.evidence import read_evidence

ROOT = Path(__file__).parents[2]
STUDIES = ["sft-rl"]


@pytest.mark.parametrize("name", STUDIES)
def test_a_committed_study_says_what_its_cells_say(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    committed = RESULTS / name
    shutil.copytree(committed / "cells", tmp_path / "cells")
    done = study(f"recipes/studies/{name}.yaml", out=tmp_path, table=True)
    assert done.results == json.loads((committed / "results.json").read_text("utf-8"))
    assert done.table == (committed / "table.md").read_text("utf-8")
    assert (tmp_path / "evidence.json").read_bytes() == (committed / "evidence.json").read_bytes()
    assert {entry.study for entry in read_evidence(committed / "evidence.json")} == {name}
    assert len(list((committed / "cells").iterdir())) == done.results["cells"]["done"]  # none of another configuration
    text = (ROOT / "docs" / f"study-{name}.md").read_text("utf-8")
    assert page(text, done.results) == text
