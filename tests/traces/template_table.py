"""Writes the table of docs/templates.md: `python -m tests.traces.template_table`."""

from __future__ import annotations

from pathlib import Path

from burnish.traces.files import atomic_write
from burnish.traces.templates import Finding
from tests.traces.families import TRUE, chat, template_names, true_chat

DOCUMENT = Path(__file__).parents[2] / "docs" / "templates.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def table() -> str:
    """The table in Markdown, true tokenizers first."""
    rows = [row(name, "true", true_chat(name).finding) for name in TRUE]
    rows += [row(name, "stand-in", chat(name).finding) for name in template_names()]
    head = "| template | tokenizer | prefix-preserving | stop class | thinking | edits | tools |\n"
    return head + "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def row(name: str, tokenizer: str, finding: Finding) -> str:
    """One line of the table."""
    edits = [f"trims {', '.join(finding.trims)}"] if finding.trims else []
    edits += ["adds system text"] if finding.system_added else []
    edits += ["system text goes into the user turn"] if finding.system_in_user else []
    edits += ["injects the date"] if finding.dates else []
    edits += ["prompt differs from a finished turn"] if finding.prompt_differs else []
    edits += ["last turn has no stop: appended"] if finding.stop_appended else []
    edits += [f"refuses {', '.join(finding.refused)}"] if finding.refused else []
    tools = finding.tool_calls
    tools += ", descriptions left out" if tools == "rendered" and not finding.tools_shown else ""
    tools += ", no text beside them" if tools.startswith("rendered") and not finding.text_beside_calls else ""
    preserving = "yes" if finding.prefix_preserving else f"no: {', '.join(finding.breaks)}"
    stops = " ".join(f"`{token}`".replace("|", "\\|") for token in finding.stop_tokens)
    return (
        f"| {name} | {tokenizer} | {preserving} | {stops} | {finding.thinking} | {'; '.join(edits) or '-'} | {tools} |"
    )


def documented() -> str:
    """The table that stands in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)].strip() + "\n"


if __name__ == "__main__":
    whole = DOCUMENT.read_text(encoding="utf-8")
    before, after = whole[: whole.index(BEGIN) + len(BEGIN)], whole[whole.index(END) :]
    atomic_write(DOCUMENT, f"{before}\n{table()}{after}")
