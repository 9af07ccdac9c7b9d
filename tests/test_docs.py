"""The documents hold what they say: links, named tests, and numbers."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
NAMED_FILE = re.compile(r"`((?:tests|recipes|benchmarks|burnish|docs)/[\w./-]+\.\w+)(?:::(\w+))?`")


def _named(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=_named)
def test_every_link_leads_to_a_file(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=_named)
def test_every_file_and_test_that_is_named_exists(document: Path) -> None:
    """What docs/promises.md and docs/status.md call shown is shown by something that is there."""
    broken = []
    for path, function in NAMED_FILE.findall(document.read_text(encoding="utf-8")):
        file = ROOT / path
        if "NAME" in path:  # a placeholder in a how-to
            continue
        if not file.exists() or (function and f"def {function}(" not in file.read_text(encoding="utf-8")):
            broken.append(f"{path}::{function}" if function else path)
    assert broken == []


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if ">>> " in d.read_text(encoding="utf-8")], ids=_named)
def test_the_worked_numbers_are_right(document: Path) -> None:
    results = doctest.testfile(str(document), module_relative=False)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize("document", ["promises.md", "status.md"])
def test_every_row_says_what_shows_it(document: str) -> None:
    """A row names a test or a command, or admits that there is none."""
    rows = [
        line for line in (ROOT / "docs" / document).read_text(encoding="utf-8").splitlines() if line.startswith("| ")
    ]
    assert rows
    for row in rows:
        shown_by = row.rstrip(" |").rsplit("|", 1)[1].strip()
        assert shown_by in {"Shown by", "missing", "planned"} or re.search(
            r"`(tests/|make |burnish |python )", shown_by
        ), row


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text
