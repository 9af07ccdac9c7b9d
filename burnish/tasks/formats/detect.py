"""Which format the rows of a file have: named by the recipe, or told by the columns of the first row that has any."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from burnish.errors import InputError
from burnish.tasks.faults import Place, RowError
from burnish.tasks.formats.layouts import LAYOUTS, Layout
from burnish.tasks.formats.reader import Reader, Row, Want
from burnish.tasks.spec import DataSpec

_LACKS = {
    "demonstrations": "nothing to imitate", "preferences": "no answers to compare", "labels": "no answers with a label",
}  # fmt: skip


@dataclass(frozen=True)
class Detected:
    """The format of a file, what its rows are read for, and how that was found out."""

    layout: Layout
    want: Want
    how: str
    """For people: `format alpaca, told by the columns instruction, input, output`."""
    others: tuple[Layout, ...] = ()
    """Formats in which a row may stand that lacks the columns of this one; none where the format is named."""

    def layout_of(self, row: Row, spec: DataSpec) -> Layout:
        """The format of one row: that of the file, or the only other one whose columns it has."""
        reader = Reader(row, spec, self.want)
        if not self.others or self.layout.fits(reader):
            return self.layout
        fitting = _best([layout for layout in self.others if layout.fits(reader)], reader)
        return fitting[0] if len(fitting) == 1 else self.layout


def detect(rows: Iterable[tuple[Place, Row | RowError]], spec: DataSpec, want: Want | None) -> Detected:
    """The format of rows that are read for `want`; None stands for the most that they hold.

    Raises InputError, naming the first row that tells and the choices, when it fits several formats that would read it
    differently, and when it fits none that holds what is wanted.
    """
    if spec.format != "auto":
        layout = LAYOUTS[spec.format]
        first = next((row for _, row in rows if not isinstance(row, RowError)), {})
        return Detected(
            layout, want or _most(layout, Reader(first, spec, "prompts")), f"format {layout.name}, as named"
        )
    allowed = [layout for layout in LAYOUTS.values() if spec.named_columns <= layout.columns]
    for place, row in rows:
        if isinstance(row, RowError):
            continue
        reader = Reader(row, spec, "prompts")
        if fitting := _best([layout for layout in allowed if layout.fits(reader)], reader):
            layout = _chosen(fitting, reader, want, place)
            columns = ", ".join(name for name in row if name in layout.reads(reader))
            found = want or _most(layout, reader)
            others = tuple(other for other in allowed if found in ("prompts", other.holds))
            return Detected(layout, found, f"format {layout.name}, told by the columns {columns}", others)
    fallback = LAYOUTS["messages" if spec.messages is not None else "prompt"]
    return Detected(fallback, want or "prompts", "no format has the columns of its rows (docs/data.md has the formats)")


def _best(fitting: Sequence[Layout], reader: Reader) -> list[Layout]:
    """Those that read more than another one does, known by clear names where there are such."""
    clear = [layout for layout in fitting if not layout.loose] or list(fitting)
    return [
        layout for layout in clear if not any(layout.reads(reader) < other.reads(reader) for other in clear)
    ]  # fmt: skip


def _most(layout: Layout, reader: Reader) -> Want:
    """What rows of this kind hold at most: prompts alone, where the one that tells shows no answer."""
    if layout.name == "prompt":
        return "demonstrations" if reader.has("completion") else "prompts"
    if layout.name in ("messages", "sharegpt"):
        name = next((name for name in ("messages", "conversations") if reader.has(name)), "")
        turns = reader.row.get(reader.column(name)) if name else None
        last = turns[-1] if isinstance(turns, list) and turns and isinstance(turns[-1], dict) else {}
        return "prompts" if last.get("role", last.get("from")) in ("user", "human") else "demonstrations"
    return layout.holds


def _chosen(fitting: list[Layout], reader: Reader, want: Want | None, place: Place) -> Layout:
    """The one format that is meant. Raises InputError where there is none, or several."""
    holding = fitting
    if want not in (None, "prompts"):
        holding = [layout for layout in fitting if _most(layout, reader) == want]
        # rows of a format that could hold it are read, so that each says what it lacks
        holding = holding or [layout for layout in fitting if layout.holds == want]
    if not holding:
        names = ", ".join(layout.name for layout in fitting)
        lacks = _LACKS[want or "prompts"]
        raise InputError(f"{place}: the rows have format {names}, which holds {lacks}; {_way_out(want, reader)}")
    if want == "prompts" and len(holding) > 1:
        holding = _with_other_prompts(holding, reader)
    if len(holding) > 1:
        choices = ", ".join(
            f"{layout.name} ({', '.join(n for n in reader.row if n in layout.reads(reader))})" for layout in holding
        )
        raise InputError(
            f"{place}: the columns fit several formats; name the one that is meant in data.format: {choices}"
        )
    return holding[0]


def _way_out(want: Want | None, reader: Reader) -> str:
    """What to do about rows that hold something else than what is wanted."""
    if want == "demonstrations" and reader.has("prompt") and isinstance(reader.row.get("chosen"), (str, list)):
        return "to imitate the better answers, set data.completion: chosen"
    known = [layout.name for layout in LAYOUTS.values() if layout.fits(reader) and _most(layout, reader) == want]
    if known:
        return f"to read them all the same, set data.format: {known[0]}"
    return "give other rows, or name the columns that hold it (docs/data.md)"


def _with_other_prompts(layouts: Sequence[Layout], reader: Reader) -> list[Layout]:
    """Formats that make different prompts of a row, the first of those that make the same; those that make none, where
    none does."""
    found: dict[str, Layout] = {}
    for layout in layouts:
        try:
            example = layout.read(reader)
        except RowError:
            continue
        prompt = reader.asking(example.prompt)
        if isinstance(prompt, str) or prompt[-1]["role"] != "assistant":
            found.setdefault(repr((prompt, example.system)), layout)
    return list(found.values()) or list(layouts)
