"""Rows out of Arrow tables, as JSON values: what Parquet files and saved data sets hold."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from burnish.errors import InputError
from burnish.tasks.faults import Place, RowError

Row = dict[str, Any]


class UnreadableError(Exception):
    """A value that JSON has nothing for, such as the bytes of an image."""


def parquet_rows(path: Path, left_out: set[str]) -> Iterator[tuple[Place, Row | RowError]]:
    """The rows of a Parquet file in order. Raises InputError when it is none. See `plain_rows` about `left_out`."""
    try:
        with pq.ParquetFile(path) as file:
            rows = (row for batch in file.iter_batches(batch_size=1000) for row in _as_python(batch))
            yield from plain_rows(rows, str(path), left_out)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a Parquet file that can be read ({error})") from None


def _as_python(batch: pa.RecordBatch) -> Iterator[Row | RowError]:
    """The rows of a batch, apart those with a value that Python has nothing for (no UTF-8, the year 10000)."""
    try:
        yield from batch.to_pylist()
        return
    except (ValueError, OverflowError):  # a UnicodeDecodeError is a ValueError
        pass
    for place in range(batch.num_rows):
        try:
            yield batch.slice(place, 1).to_pylist()[0]
        except (ValueError, OverflowError) as error:
            yield RowError("malformed", f"a value cannot be read: {error}; mend or remove the row")


def plain_rows(rows: Iterable[Row | RowError], name: str, left_out: set[str]) -> Iterator[tuple[Place, Row | RowError]]:
    """Rows with JSON values only, numbered from 1.

    Dates become ISO text, exact decimals text. Inside of a column, fields that are null are left out: Arrow gives every
    object of a column all fields that any of them has. A column with bytes is left out, and its name is added to
    `left_out`.
    """
    for number, row in enumerate(rows, 1):
        place, found = Place(name, "row", number), {}
        if isinstance(row, RowError):
            yield place, row
            continue
        try:
            for column, value in row.items():
                try:
                    found[column] = _plain(value, column)
                except UnreadableError:
                    left_out.add(column)
        except RowError as error:
            yield place, error
        else:
            yield place, found


def _plain(value: Any, column: str) -> Any:
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise RowError("malformed", f"{column!r} holds {value}, which is not JSON; write null or a number")
        return value
    if isinstance(value, dict):
        return {str(key): _plain(inner, column) for key, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_plain(inner, column) for inner in value]
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, datetime.timedelta)):
        return str(value)
    raise UnreadableError
