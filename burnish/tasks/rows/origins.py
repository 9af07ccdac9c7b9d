"""Where the rows of a recipe's `data` stand, and reading them there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.tasks.faults import Place, RowError
from burnish.tasks.rows.arrow import parquet_rows
from burnish.tasks.rows.jsonfiles import json_rows
from burnish.tasks.rows.library import hub_rows, is_saved, saved_rows
from burnish.tasks.spec import DataSpec
from burnish.tasks.suggest import did_you_mean

Row = dict[str, Any]
JSON = (".jsonl", ".json", ".ndjson")


@dataclass
class Rows:
    """Every row of one origin: where it stands, and the row or what is wrong with it."""

    name: str
    listed: list[tuple[Place, Row | RowError]]
    left_out: set[str] = field(default_factory=set)
    """Columns with bytes (images, sounds), which are not read."""


def open_rows(spec: DataSpec, base: Path | None = None) -> Rows:
    """Read all rows of a spec's `path` or `hub`. A relative path is taken from `base`.

    Raises InputError for an origin that is missing, empty or of another kind; what is wrong with a single row is in its
    place.
    """
    left_out: set[str] = set()
    if spec.hub is not None:
        folder = (base or Path()) / Path(spec.hub).expanduser()
        hub = str(folder) if folder.is_dir() else spec.hub
        name = spec.hub
        rows = hub_rows(hub, split=spec.split, name=spec.name, revision=spec.revision, left_out=left_out)
    else:
        assert spec.path is not None  # the spec holds one of the two
        path = (base or Path()) / Path(spec.path).expanduser()
        name, rows = str(path), _local(path, spec, left_out)
    listed = list(rows)
    if not listed:
        raise InputError(f"{name}: the {'file' if spec.path else 'data set'} has no rows; write one JSON object a line")
    return Rows(name, listed, left_out)


def _local(path: Path, spec: DataSpec, left_out: set[str]) -> Iterator[tuple[Place, Row | RowError]]:
    if path.is_dir():
        if not is_saved(path):
            raise InputError(f"{path}: is a folder, not a file{_inside(path)}")
        return saved_rows(path, spec.split, left_out)
    if spec.split is not None:
        raise InputError(f"data.split: {path} is a file, which has no splits; remove it")
    if not path.is_file():
        there = path.parent.iterdir() if path.parent.is_dir() else ()
        near = [p.name for p in there if p.is_file() and p.suffix in (*JSON, ".parquet")]
        raise InputError(f"{path}: no such file; {did_you_mean(path.name, near) if near else 'check data.path'}")
    if path.suffix == ".parquet":
        return parquet_rows(path, left_out)
    if path.suffix in JSON:
        return json_rows(path)
    raise InputError(
        f"{path}: rows are read from JSON ({', '.join(JSON)}), from Parquet (.parquet), and from folders that the "
        "`datasets` library saved; convert the file"
    )


def _inside(path: Path) -> str:
    """What to do about a folder that is no saved data set."""
    if (path / "rows.jsonl").is_file():
        return f": give its file {path / 'rows.jsonl'}"
    files = sorted(p.name for p in path.iterdir() if p.suffix in (*JSON, ".parquet"))
    if files:
        return f"; it holds {', '.join(files[:5])}: give one of them, or the folder as data.hub to read it like a hub's"
    return ", and no data set that `save_to_disk` wrote (there is no state.json)"
