"""Traces for the eye: every token with author, role, mask, log-probability and signals.

Texts in a trace come from models and from the world: they may hold escape sequences that would move the cursor or
rewrite the screen. Nothing reaches the terminal that is not printable; what is not is shown as its escape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from burnish.traces.groups import Group, Span
from burnish.traces.store import author_text
from burnish.traces.trace import ROLES, AuthorKind, Signal, SignalKind, Trace

_STYLES = {
    AuthorKind.MODEL: "bold green",
    AuthorKind.DEMONSTRATION: "green",
    AuthorKind.ENVIRONMENT: "yellow",
    AuthorKind.CONTEXT: "dim",
}
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\"}


class Decoder(Protocol):
    """What is used of a tokenizer."""

    def decode(self, token_ids: Any, **options: Any) -> Any: ...
    def convert_ids_to_tokens(self, ids: Any) -> Any: ...


def visible(text: str) -> str:
    """`text` with every character that is not printable written as an escape, backslashes doubled."""
    return "".join(_SHORT.get(c) or (c if c.isprintable() else _escape(c)) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def show_groups(
    groups: Iterable[Group], console: Console, tokenizer: Decoder | None = None, limit: int | None = 200
) -> None:
    """Print groups with their members token by token; without a tokenizer the ids alone stand for the text.

    `limit` is the number of tokens printed of each member (None: all); how many were left out is said. The column
    "mask" names the signals that train the token: policy-gradient and other loss weights that are neither absent
    nor zero. A span that is masked or does not count trains nothing, and its mask says so.
    """
    for group in groups:
        _show_group(group, console, tokenizer, limit, depth=0)


def _show_group(group: Group, console: Console, tokenizer: Decoder | None, limit: int | None, depth: int) -> None:
    title = f"{'  ' * depth}group {visible(group.key)}: {len(group.members)} members"
    if group.children:
        title += f", {len(group.children)} nested groups"
    console.print(Text(title, style="bold"))
    for name, value in group.columns.items():
        console.print(Text(f"{'  ' * depth}  {visible(name)} = {_cut(visible(str(value)), 120)}"))
    for relation in group.relations:
        margin = f" by {relation.margin:g}" if relation.margin else ""
        sign = "ties with" if relation.kind == "tie" else "is preferred to"
        console.print(Text(f"{'  ' * depth}  member {relation.better} {sign} member {relation.worse}{margin}"))
    for index, span in enumerate(group.members):
        console.print(Text(f"{'  ' * depth}  {_heading(index, span)}"))
        console.print(_token_table(span, tokenizer, limit))
    for child in group.children:
        _show_group(child, console, tokenizer, limit, depth + 1)


def _heading(index: int, span: Span) -> str:
    parts = [f"member {index}: {visible(span.name)} of trace {visible(span.trace.id)}, tokens {span.start}:{span.stop}"]
    verdict = span.verdict
    if verdict is None:
        parts.append("not judged")
    elif verdict.reward is None:
        parts.append(f"no reward ({verdict.status.value}: {visible(verdict.reason)})")
    else:
        parts.append(f"reward {verdict.reward:g} ({verdict.status.value})")
    if span.masked:
        parts.append("masked")
    return ", ".join(parts)


def _token_table(span: Span, tokenizer: Decoder | None, limit: int | None) -> Table:
    trace, path = span.trace, span.trace.path(span.leaf)
    names = list(dict.fromkeys(name for node in path for name in trace.nodes[node].signals))
    table = Table(show_edge=False, pad_edge=False)
    for heading in ("#", "node", "id", "token"):
        table.add_column(heading, justify="right" if heading != "token" else "left", overflow="fold")
    for heading in ("author", "role", "mask"):
        table.add_column(heading, overflow="fold")
    table.add_column("log-prob", justify="right")
    for name in names:
        table.add_column(Text(visible(name)), justify="right")
    total = sum(len(trace.nodes[node]) for node in path)
    for place, row in enumerate(_rows(trace, path, span, names, tokenizer)):
        if limit is not None and place >= limit:
            table.add_row("…", "", "", Text(f"{total - place} more tokens"))
            break
        table.add_row(*row)
    return table


def _rows(
    trace: Trace, path: list[int], span: Span, names: list[str], tokenizer: Decoder | None
) -> Iterator[list[Text | str]]:
    place = 0
    for index in path:
        node = trace.nodes[index]
        for token in range(len(node)):
            author = trace.authors[node.authors[token]]
            inside = span.start <= place < (span.stop or 0)
            mask = _mask(node.signals, token) if inside and span.counts else "" if span.counts else "not counted"
            logprob = float(node.logprobs[token])
            identity = int(node.tokens[token])
            yield [
                str(place),
                str(index),
                str(identity),
                Text("" if tokenizer is None else _piece(tokenizer, identity), style=_STYLES[author.kind]),
                Text(visible(author_text(author))),
                ROLES[node.roles[token]].value,
                Text(visible(mask)),
                "" if np.isnan(logprob) else f"{logprob:.4f}",
                *(_value(node.signals.get(name), token) for name in names),
            ]
            place += 1


def _mask(signals: dict[str, Signal], token: int) -> str:
    training = []
    for name, signal in signals.items():
        value = signal.values[token]
        if signal.kind is not SignalKind.STATISTIC and bool((~np.isnan(value) & (value != 0)).any()):
            training.append(name)
    return " ".join(training)


def _value(signal: Signal | None, token: int) -> str:
    if signal is None:
        return ""
    values = np.atleast_1d(signal.values[token]).reshape(-1)
    shown = " ".join("-" if np.isnan(v) else f"{v:.4g}" for v in values[:4])
    return ("" if len(values) == 1 and shown == "-" else shown) + (" …" if len(values) > 4 else "")


def _piece(tokenizer: Decoder, identity: int) -> str:
    text = str(tokenizer.decode([identity]))
    if "\ufffd" in text or not text:  # part of a character, or nothing: the vocabulary's own name says more
        text = str(tokenizer.convert_ids_to_tokens(identity) or "")
    return visible(text)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
