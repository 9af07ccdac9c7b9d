"""Rows of a JSON file: one object a line, or one array of objects."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from burnish.errors import InputError
from burnish.tasks.faults import Place, RowError
from burnish.tasks.messages import kind_of

Row = dict[str, Any]
_SPACE = b" \t\r\n"


def json_rows(path: Path) -> Iterator[tuple[Place, Row | RowError]]:
    """The rows in order; what is wrong with one stands in its place. Blank lines are no rows.

    A file that begins with `[` is an array. Raises InputError for a file that cannot be read, and for an array that is
    not whole.
    """
    try:
        with path.open("rb") as file:
            if _is_array(file.read(4096)):
                yield from _array(path)
                return
            file.seek(0)
            for number, raw in enumerate(file, 1):
                place = Place(str(path), "line", number)
                try:
                    if text := _decoded(raw, first=number == 1).strip():
                        yield place, _line(text)
                except RowError as error:
                    yield place, error
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error})") from None


def _is_array(start: bytes) -> bool:
    return start.removeprefix(b"\xef\xbb\xbf").lstrip(_SPACE).startswith(b"[")


def _array(path: Path) -> Iterator[tuple[Place, Row | RowError]]:
    try:
        items = _loads(path.read_text("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}, line {error.lineno}, column {error.colno}: the array is not JSON ({error.msg}); mend it, or "
            "write one object a line"
        ) from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply to read" if isinstance(error, RecursionError) else str(error)
        raise InputError(f"{path}: {reason}") from None
    for number, item in enumerate(items, 1):
        try:
            yield Place(str(path), "item", number), _object(item, "each item of the array")
        except RowError as error:
            yield Place(str(path), "item", number), error


def _decoded(raw: bytes, *, first: bool) -> str:
    try:
        return raw.decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError as error:
        raise RowError("malformed", f"byte {error.start + 1} is not UTF-8; save the file as UTF-8") from None


def _line(text: str) -> Row:
    try:
        row = _loads(text)
    except json.JSONDecodeError as error:
        raise RowError(
            "malformed", f"malformed JSON at column {error.colno} ({error.msg}); each line must be one object"
        ) from None
    except ValueError as error:
        raise RowError("malformed", str(error)) from None
    except RecursionError:
        raise RowError("malformed", "the row is nested too deeply to read") from None
    return _object(row, "each line")


def _object(row: Any, what: str) -> Row:
    if not isinstance(row, dict):
        raise RowError("malformed", f"{what} must be one JSON object, this is {kind_of(row)}")
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise RowError("malformed", "half a surrogate pair (a \\ud8.. escape) is not text; mend it") from None
    return row


def _loads(text: str) -> Any:
    return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)


def _finite(digits: str) -> float:
    if math.isinf(value := float(digits)):
        raise ValueError(f"{digits[:40]} is too large a number; write it as text")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON; write null or a number")
