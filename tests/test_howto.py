"""The commands of docs/howto.md run, in order, in an empty folder."""

from __future__ import annotations

from pathlib import Path

from tests.docs.pages import ROOT, blocks
from tests.docs.shell import run_block


def test_every_block_of_the_how_to_runs(tmp_path: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    shells = [block for block in blocks(ROOT / "docs" / "howto.md") if block.language == "bash"]
    assert len(shells) >= 6
    for block in shells:
        run_block(block.text, folder)
    assert (folder / "runs" / "mine" / "report.html").exists()
    assert (folder / "merged" / "model.safetensors").exists()
