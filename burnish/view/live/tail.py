"""metrics.jsonl read as it grows: only what was appended since the last look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from burnish.errors import InputError

_KEPT = 256
"""Bytes before the place read so far that are compared, to notice a file that was cut and written anew."""


class Tail:
    """The records of a metrics file so far, one a step, and a generation that changes when earlier ones did."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.generation = 0
        self.records: list[dict[str, Any]] = []
        self._clear()

    def _clear(self) -> None:
        self._offset, self._before, self._lines, self._identity = 0, b"", 0, None
        self.records.clear()

    def read(self) -> None:
        """Take in the whole lines that were appended.

        A step that was recorded before, as a resumed run repeats them, takes the place of it and all that followed it;
        then, and when the file was cut or replaced, the generation changes. A last line that is broken is left for the
        next look: a run may be writing it. Raises InputError for a broken line with others behind it.
        """
        if not self.path.is_file():
            if self._offset:
                self._start_again()
            return
        with self.path.open("rb") as file:
            stat = self.path.stat()
            identity = (stat.st_dev, stat.st_ino)
            file.seek(max(0, self._offset - len(self._before)))
            if self._offset and (identity != self._identity or file.read(len(self._before)) != self._before):
                self._start_again()
                file.seek(0)
            self._identity = identity
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._take(whole)

    def _start_again(self) -> None:
        self._clear()
        self.generation += 1

    def _take(self, whole: bytes) -> None:
        lines = whole.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    record = json.loads(line.decode("utf-8"))
                    step = float(record["step"])
                except (ValueError, TypeError, KeyError) as error:
                    if number == len(lines):
                        return
                    raise InputError(
                        f"{self.path}, line {self._lines + 1}: not a record with a step ({error!r}); "
                        "remove the line, or go on with --resume, which cuts what is behind the last checkpoint"
                    ) from None
                self._add(step, record)
            self._offset += len(line)
            self._lines += 1
            self._before = (self._before + line)[-_KEPT:]

    def _add(self, step: float, record: dict[str, Any]) -> None:
        if self.records and step <= float(self.records[-1]["step"]):
            self.generation += 1
            while self.records and step <= float(self.records[-1]["step"]):
                self.records.pop()
        self.records.append(record)
