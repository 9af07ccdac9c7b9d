"""What the documents hold: their blocks and their command lines, in order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]

PROGRAMS = r"burnish|python3?|make|pip|jq|ruff|git|tensorboard|trackio|wandb|docker|apt|mkdocs|\.venv/bin/\S+"
"""What a command line begins with."""
COMMAND = re.compile(rf"(?:[A-Z_]+=\S+ )*(?:{PROGRAMS})\s+\S.*")

_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^\1```", re.M | re.S)
_IN_LINE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: str
    language: str
    text: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that the block is for: named by a comment in its first line."""
        named = re.match(r"# ([\w.-]+\.(?:py|yaml|jsonl))\n", self.text)
        return named[1] if named else None


def blocks(page: Path) -> list[Block]:
    """Every fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in _FENCED.finditer(text):
        inner = re.sub(rf"^{match[1]}", "", match[3], flags=re.M)
        found.append(Block(name_of(page), match[2], inner, text[: match.start()].count("\n") + 1))
    return found


def name_of(page: Path) -> str:
    """Its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def command_lines(page: Path) -> list[str]:
    """The command lines of a page outside of fenced blocks, without comments: indented ones, then those in a line.

    A command goes on in the next line after a backslash.
    """
    text = _FENCED.sub("", page.read_text(encoding="utf-8")).replace("\\\n", " ")
    return list(dict.fromkeys(_uncommented(line) for line in [*_indented(text), *_within(text)]))


def _indented(text: str) -> Iterator[str]:
    for line in re.findall(r"^ {4}(\S.*)$", text, re.M):
        if COMMAND.fullmatch(line):
            yield line


def _within(text: str) -> Iterator[str]:
    for code in _IN_LINE.findall(re.sub(r"^ {4}.*$", "", text, flags=re.M)):
        if COMMAND.fullmatch(code):
            yield code


def _uncommented(line: str) -> str:
    return re.sub(r"\s+#.*$", "", line).strip()
