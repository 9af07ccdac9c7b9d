"""What the site has beyond docs/: README, CONTRIBUTING and CHANGELOG, the notebook, and the files that pages link to.

The documents are written for a reader of the repository, with links to files wherever they are. Here a link that leaves
docs/ becomes a link to a page with that file's text, so that it works in the site too, also without a network.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Documents outside docs/ that are pages, and where."""
NOTEBOOKS = {"docs/notebook.ipynb": "notebook.md"}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", ".toml": "toml", ".svg": "xml"}
FOUND = re.compile(
    r"^( *)(`{3,}|~{3,}).*?^\1\2`*\s*$|^(?: {4,}|\t)[^\n]*$"
    r"|(?P<bracket>!?\[)(?P<says>[^\]]*)\]\((?P<link>[^)\s#]+)(?P<anchor>#[^)\s]*)?\)"
    r"|``[^\n]+?``|`[^`\n]*`",
    re.M | re.S,
)
"""Links; and before them, so that they are passed over, fenced and indented blocks, and after them code in a line."""
LONGEST = 200_000
"""Characters of a file that a page shows."""


def target(page: str, link: str, homes: dict[str, str]) -> tuple[str, str | None]:
    """The link as the site has it, and the repository's file that it needs a page for, if any.

    `page` is a path in the repository; `homes` says which of its files outside docs/ are pages, and where.
    """
    if "://" in link or link.startswith(("mailto:", "/")):
        return link, None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    here = posixpath.dirname(site_path(page, homes))
    if path.startswith("docs/") or path in homes:
        return posixpath.relpath(site_path(path, homes), here or "."), None
    if (ROOT / path).is_file():
        return posixpath.relpath(source_page(path), here or "."), path
    return link, None


def site_path(path: str, homes: dict[str, str]) -> str:
    """Where a file of the repository stands below the site's pages."""
    return homes.get(path, path.removeprefix("docs/"))


def source_page(path: str) -> str:
    """The page with the text of a file."""
    return f"source/{path}.md"


def relinked(text: str, page: str) -> tuple[str, set[str]]:
    """A document with its links as the site has them, and the files that need a page."""
    homes, needed = {**PAGES, **NOTEBOOKS}, set()

    def link(match: re.Match[str]) -> str:
        if not match["link"]:
            return match[0]
        where, file = target(page, match["link"], homes)
        needed.update([file] if file else [])
        says = match["says"]
        if not file and re.fullmatch(r"[\w./-]+\.(md|ipynb)", says):  # a reader of the site knows pages by their titles
            says = title(posixpath.normpath(posixpath.join(posixpath.dirname(page), match["link"]))) or says
        return f"{match['bracket']}{says}]({where}{match['anchor'] or ''})"

    return FOUND.sub(link, text), needed


def title(path: str) -> str | None:
    """The title of a document of the repository, where it has one."""
    if not (ROOT / path).is_file():
        return None
    text = notebook_text(path) if path in NOTEBOOKS else (ROOT / path).read_text(encoding="utf-8")
    found = re.search(r"^# (.+)$", text, re.M)
    return found[1] if found else None


def source_text(path: str) -> str:
    """The page of a file: its text as a block."""
    text = (ROOT / path).read_text(encoding="utf-8")
    note = "" if len(text) <= LONGEST else f"\n\nThe first {LONGEST:,} of {len(text):,} characters."
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall(r"`{3,}", text))])
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}{note}\n\n{fence}{language}\n{text[:LONGEST].rstrip()}\n{fence}\n"


def notebook_text(path: str) -> str:
    """A notebook as a page: its texts, its code, and what the code gave."""
    cells = json.loads((ROOT / path).read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += [shown for output in cell.get("outputs", []) if (shown := output_text(output))]
    return "\n\n".join(parts) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """What a cell gave, as HTML that stands in a page."""
    data = output.get("data", {})
    for kind in ("image/svg+xml", "text/html"):
        if kind in data:
            return f'<div class="cell-output">{re.sub(chr(10) + "{2,}", chr(10), "".join(data[kind]))}</div>'
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f'<pre class="cell-output">{html.escape(text).replace(chr(10), "&#10;")}</pre>' if text else ""


# ---------------------------------------------------------------- what mkdocs calls

_texts: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/, and a page for each file that a page links to."""
    _texts.clear()
    wanted: set[str] = set()
    for document in [*PAGES, *(f"docs/{file.src_uri}" for file in files.documentation_pages())]:
        text, needed = relinked((ROOT / document).read_text(encoding="utf-8"), document)
        _texts[site_path(document, PAGES)] = text
        wanted |= needed
    _texts.update({page: relinked(notebook_text(path), path)[0] for path, page in NOTEBOOKS.items()})
    _texts.update({source_page(path): source_text(path) for path in wanted})
    there = {file.src_uri for file in files}
    for page in sorted(_texts.keys() - there):
        files.append(File.generated(config, page, content=""))
    return files


def on_page_read_source(page: Page, config: MkDocsConfig) -> str | None:
    """The text of a page, with the links that work here."""
    return _texts.get(page.file.src_uri)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Pages of files stay out of the search."""
    if page.file.src_uri.startswith("source/"):
        page.meta["search"] = {"exclude": True}
        page.meta["hide"] = ["toc", "navigation"]
    return markdown
