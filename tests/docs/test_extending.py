"""The pages of docs/ that build something do so as they say it: each block runs, in order, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from burnish.methods.registry import METHODS
from tests.docs.pages import ROOT, Block, blocks
from tests.docs.shell import inside, run_block
from tests.docs.smaller import make_folder

SHORTER: dict[str, list[tuple[str, str]]] = {
    "adding-a-loss.md": [],
    "adding-a-method.md": [("steps: 16", "steps: 10")],
    "adding-an-environment.md": [
        ("steps: 12", "steps: 2"),
        ("prompts_per_step: 12", "prompts_per_step: 4"),
        ('("heldout.jsonl", 60)', '("heldout.jsonl", 4)'),
    ],
    "adding-a-verifier.md": [],
    "start.md": [("data.family.count=20", "data.family.count=4")],
}
"""Page -> what is made smaller in it here; the figures on the page are those of the whole."""


def test_each_page_that_builds_something_is_run() -> None:
    assert {page.name for page in (ROOT / "docs").glob("adding-*.md")} <= set(SHORTER)
    linked = re.findall(r"\]\((adding-[\w-]+\.md)\)", (ROOT / "docs" / "extending.md").read_text(encoding="utf-8"))
    assert set(linked) == {page for page in SHORTER if page.startswith("adding-")}


@pytest.fixture
def methods(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is forgotten after it."""
    for name in set(METHODS):
        monkeypatch.setitem(METHODS, name, METHODS[name])
    monkeypatch.setitem(METHODS, "keep-best", METHODS["sft"])  # so that it is taken away again


@pytest.mark.parametrize("page", SHORTER)
def test_every_block_of_the_page_runs(page: str, tmp_path: Path, methods: None) -> None:
    names: dict[str, object] = {"__name__": "page"}
    make_folder(tmp_path)  # the page of first steps uses recipes of the package
    with inside(tmp_path):
        for block in shortened(page):
            run(block, names, tmp_path)
    if page == "adding-a-method.md":
        assert names["run"].summary["comparison"]["difference"]["low"] > 0  # type: ignore[attr-defined]


def shortened(page: str) -> list[Block]:
    """The blocks of a page, smaller; a text that is to be smaller has to be there."""
    found = blocks(ROOT / "docs" / page)
    for old, new in SHORTER[page]:
        assert sum(old in block.text for block in found) >= 1, f"{page} no longer says {old!r}"
        found = [Block(b.page, b.language, b.text.replace(old, new), b.line) for b in found]
    return found


def run(block: Block, names: dict[str, object], folder: Path) -> None:
    """Save a block that is a file; run any other."""
    if block.file:
        (folder / block.file).write_text(block.text, encoding="utf-8")
    elif block.language == "bash":
        run_block(block.text, folder)
    elif block.language == "text":  # what a command showed
        pass
    elif block.language == "python":
        exec(compile("\n" * block.line + block.text, block.page, "exec"), names)
    else:
        raise AssertionError(f"{block.page}, line {block.line}: a block that is neither a file nor run")
