"""Rollouts token by token, for a terminal and for a notebook."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from burnish.errors import InputError
from burnish.traces import Group
from burnish.traces.show import Decoder, show_groups
from burnish.view.rollouts import training_groups
from burnish.view.tokens import run_tokenizer, stored_groups

_STYLE = (
    ".burnish pre{white-space:pre-wrap;margin:2px 0}.burnish h4{margin:8px 0 0;font-size:1em}"
    ".burnish .fine{font-weight:400;opacity:.7;margin-left:6px}.burnish .other,.burnish .prompt{opacity:.6}"
    ".burnish .t.up{background:rgba(16,138,96,calc(var(--a,0)*.5))}"
    ".burnish .t.down{background:rgba(205,60,50,calc(var(--a,0)*.5))}"
)


@dataclass(frozen=True)
class Rollouts:
    """Stored groups. Printed they are tables of tokens; a notebook colours the tokens by their advantage."""

    file: Path
    groups: list[Group] = field(repr=False)
    tokenizer: Decoder | None = field(repr=False)
    limit: int | None = field(repr=False)

    def print(self, console: Console) -> None:
        """As `burnish show` does."""
        show_groups(self.groups, console, self.tokenizer, self.limit)

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=160, force_jupyter=False, force_terminal=False)
        with console.capture() as captured:
            self.print(console)
        return captured.get()

    def _repr_html_(self) -> str:
        return f'<div class="burnish"><style>{_STYLE}</style>{training_groups(self.groups, self.tokenizer)}</div>'


def show(place: str | Path, *, group: int | None = None, limit: int = 200, tokenizer: str | None = None) -> Rollouts:
    """The rollouts of a traces file, or the last stored ones of a run directory.

    `group` chooses one, counted from 0; `limit` is the number of tokens printed of each member (0: all); `tokenizer`
    names a tokenizer.json or a model in place of the run's own. Raises InputError when there are none.
    """
    file, groups = stored_groups(Path(place))
    if group is not None and not 0 <= group < len(groups):
        raise InputError(f"{file} has {len(groups)} groups, numbered from 0; there is no group {group}")
    if limit < 0:
        raise InputError(f"limit: given {limit}; it takes a whole number >= 0")
    chosen = groups if group is None else [groups[group]]
    return Rollouts(file, chosen, run_tokenizer(Path(place), tokenizer), limit or None)
