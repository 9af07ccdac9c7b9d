"""What trackers have stored, read back by the programs' own means, for the tests."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

_BLOCK, _HEADER = 32768, 7


def tensorboard_scalars(trackers: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag -> (step, value) as TensorBoard shows them, superseded events left out."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(trackers / "tensorboard"))
    found.Reload()
    return {tag: [(s.step, s.value) for s in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


def tensorboard_text(trackers: Path, tag: str) -> str:
    """The last text of a tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(trackers / "tensorboard"))
    found.Reload()
    return found.Tensors(f"{tag}/text_summary")[-1].tensor_proto.string_val[0].decode()


def trackio_rows(trackers: Path, project: str = "burnish") -> list[tuple[str, str, int, dict[str, float]]]:
    """(run id, run name, step, metrics) of every row, in order."""
    with closing(sqlite3.connect(trackers / "trackio" / f"{project}.db")) as database:
        rows = database.execute("select run_id, run_name, step, metrics from metrics order by id").fetchall()
    return [(run, name, step, json.loads(metrics)) for run, name, step, metrics in rows]


def trackio_alerts(trackers: Path, project: str = "burnish") -> list[str]:
    """Titles of the run's alerts."""
    with closing(sqlite3.connect(trackers / "trackio" / f"{project}.db")) as database:
        return [title for (title,) in database.execute("select title from alerts order by id")]


def wandb_files(trackers: Path) -> list[Path]:
    """The offline files, one a life of the run, oldest first."""
    return sorted(trackers.glob("wandb/offline-run-*/*.wandb"))


def wandb_records(file: Path) -> Iterator[Any]:
    """The records of an offline file: protocol buffers in a LevelDB log after a header of seven bytes."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, whole = file.read_bytes(), b""
    at = _HEADER
    while at + _HEADER <= len(data):
        if _BLOCK - at % _BLOCK < _HEADER:  # the rest of a block that is too short for a header
            at += _BLOCK - at % _BLOCK
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        whole += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (1, 4):  # a full record, or the last part of one
            yield Record.FromString(whole)
            whole = b""


def wandb_history(file: Path) -> list[dict[str, Any]]:
    """The logged rows."""
    return [
        {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        for record in wandb_records(file)
        if record.HasField("history")
    ]
