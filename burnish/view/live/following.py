"""A run followed while it is written: what has changed since a page last asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.view.curves import columns_of, curve_of, evaluation_curves
from burnish.view.document import Document
from burnish.view.heat import heat
from burnish.view.live.tail import Tail
from burnish.view.packed import Packed
from burnish.view.record import read_run
from burnish.view.report import html_sections, run_document, samples_of
from burnish.view.rollouts import load_tokenizer
from burnish.view.stored import SAMPLE, StoredStep, chosen, stored_step, trace_files

EVERY, EVERY_WHEN_DONE = 2000, 20000
"""Milliseconds between two questions of a page, while a run is going and when it has ended."""

HTML_EVERY, SAMPLES_EVERY = 10.0, 10.0
"""Least seconds between two renewals of the tables for the sake of new metrics alone, and of the rollouts."""

SHARE = 0.003
"""Of one core, that each of the two kinds of renewal may take: what was slow is done less often."""


class Following:
    """A run directory that grows. Reads what was appended to the metrics, and each other file once.

    One lock: pages are answered one after another. Raises InputError at once when this is no run.
    """

    def __init__(
        self, path: Path, *, sample: int = SAMPLE, seed: int = 0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.path, self.sample, self.seed = path, sample, seed
        self._clock, self._lock = clock, threading.Lock()
        self._tail = Tail(path / "metrics.jsonl")
        self._record = read_run(path)
        self._files: dict[Path, StoredStep] = {}
        self._packed: dict[str, Packed] = {}
        self._marks: tuple[object, ...] = ()
        self._sections = self._stored = 0
        self._html_due = self._samples_due = -1e9
        self._html_records = 0
        self._error = ""
        self._look()

    # ---------------------------------------------------------------- answers

    def page(self) -> Document:
        """The whole page as the run stands."""
        with self._lock:
            self._look()
            return run_document(
                self._record,
                self._steps(),
                sample=self.sample,
                seed=self.seed,
                live=self._where(),
                known=self._packed,
            )

    def changes(self, cursor: str = "", sections: int = -1, stored: int = -1) -> dict[str, Any]:
        """What is new since the answer that gave these three marks, as JSON values.

        `steps` and `metrics` are what was appended, `reset` whole curves where earlier steps changed, `html` the
        tables, `samples` and `heat` the rollouts; each stands there only when it changed.
        """
        with self._lock:
            self._look()
            news = self._where()
            generation, _, count = cursor.partition(".")
            known = int(count) if count.isdecimal() else 0
            if generation != str(self._tail.generation) or known > len(self._tail.records):
                news["reset"] = {name: curve_of(self._record.series(name)) for name in self._record.metric_names()}
            else:
                news["steps"], news["metrics"] = columns_of(self._tail.records[known:])
            if sections != self._sections:
                began = time.process_time()
                news["html"] = html_sections(self._record)
                news["evaluations"] = evaluation_curves(self._record.evaluations)
                self._html_due += (time.process_time() - began) / SHARE
            if stored != self._stored:
                began, steps = time.process_time(), self._steps()
                news["samples"] = samples_of(
                    steps, load_tokenizer(self.path), sample=self.sample, seed=self.seed, known=self._packed
                )
                news["heat"] = heat(steps)
                self._samples_due += (time.process_time() - began) / SHARE
            return news

    def _where(self) -> dict[str, Any]:
        finished = bool(self._record.summary)
        records = self._tail.records
        state = f"step {records[-1]['step']:,g}" if records else "no step yet"
        return {
            "cursor": f"{self._tail.generation}.{len(records)}",
            "sections": self._sections,
            "stored": self._stored,
            "every": EVERY_WHEN_DONE if finished else EVERY,
            "finished": finished,
            "state": f"finished, {state}" if finished else f"live, {state}",
            "error": self._error,
        }

    # ---------------------------------------------------------------- looking

    def _look(self) -> None:
        """Take in what has changed on disk; what is broken is told on the page, and the rest stays as it was."""
        self._error = ""
        for look in (self._look_at_metrics, self._look_at_files, self._look_at_traces):
            try:
                look()
            except InputError as error:
                self._error = str(error)

    def _look_at_metrics(self) -> None:
        try:
            self._tail.read()
        finally:
            self._record.metrics[:] = self._tail.records

    def _look_at_files(self) -> None:
        now, marks = self._clock(), self._file_marks()
        grown = self._html_records != len(self._tail.records) and now >= self._html_due
        if marks == self._marks and not grown:
            return
        if marks != self._marks:
            self._record = replace(read_run(self.path, metrics=False), metrics=list(self._tail.records))
            self._marks = marks
        self._html_due, self._html_records = now + HTML_EVERY, len(self._tail.records)
        self._sections += 1

    def _file_marks(self) -> tuple[object, ...]:
        """What tells whether the recipe, the summary or an evaluation is another than before."""
        files = [
            self.path / "config.yaml",
            self.path / "summary.json",
            *sorted(self.path.glob("evaluations/[!.]*.json")),
        ]
        return tuple((str(f), s.st_mtime_ns, s.st_size, s.st_ino) for f in files if f.is_file() and (s := f.stat()))

    def _look_at_traces(self) -> None:
        files = trace_files(self.path)
        now = self._clock()
        if files == list(self._files) or (self._files and now < self._samples_due):
            return
        self._files = {file: self._files.get(file) or stored_step(file, place) for place, file in enumerate(files, 1)}
        kept = {stored.id for stored, _ in chosen(self._steps(), sample=self.sample, seed=self.seed)}
        self._packed = {name: packed for name, packed in self._packed.items() if name in kept}
        self._samples_due = now + SAMPLES_EVERY
        self._stored += 1

    def _steps(self) -> list[StoredStep]:
        return sorted(self._files.values(), key=lambda stored: stored.step)
