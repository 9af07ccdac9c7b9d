"""What a run tells while it runs: a live line, plain lines, JSON lines, or nothing. No torch here."""

from __future__ import annotations

import json
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TextIO, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from burnish.errors import InputError
from burnish.running.output import results

Mode = Literal["auto", "live", "lines", "quiet", "json"]

FIGURES: tuple[tuple[str, tuple[str, ...], Callable[[float], str]], ...] = (
    ("reward", ("reward", "reward/mean"), lambda v: f"{v:.3f}"),
    ("accuracy", ("reward/numeric", "accuracy"), lambda v: f"{100 * v:.1f} %"),
    ("held-out accuracy", ("held_out/accuracy",), lambda v: f"{100 * v:.1f} %"),
    ("loss", ("loss",), lambda v: f"{v:.4g}"),
    ("tokens/s", ("timing/tokens_per_second",), lambda v: f"{v:,.0f}"),
)
"""What of a step's record is shown: label, the metric's possible names, form. Absent ones are left out."""

_RECENT = 20  # steps whose median duration gives the time left


class Progress(Protocol):
    """What the loop calls. Step records count steps from 1 under the key "step"."""

    def start(self, run_title: str, steps: int) -> None:
        """A run of so many steps begins."""
        ...

    def phase(self, name: str, done: int, total: int) -> None:
        """Within or between steps, `done` of `total` things of this phase are done ("evaluation", "sampling")."""
        ...

    def step(self, record: Mapping[str, Any]) -> None:
        """A step is over; these are its metrics."""
        ...

    def message(self, text: str) -> None:
        """Something a person should read."""
        ...

    def finish(self, summary: Mapping[str, Any]) -> None:
        """The run is over; this is what it came to."""
        ...


class _Display:
    """A display as a context manager, so that a run that raises leaves the terminal as it was."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give the terminal back."""


class QuietProgress(_Display):
    """Says nothing."""

    def start(self, run_title: str, steps: int) -> None: ...
    def phase(self, name: str, done: int, total: int) -> None: ...
    def step(self, record: Mapping[str, Any]) -> None: ...
    def message(self, text: str) -> None: ...
    def finish(self, summary: Mapping[str, Any]) -> None: ...


class JsonProgress(_Display):
    """One JSON object a line, with the key "event": start, phase, step, message, finish."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or results()

    def start(self, run_title: str, steps: int) -> None:
        self._write("start", {"title": run_title, "steps": steps})

    def phase(self, name: str, done: int, total: int) -> None:
        self._write("phase", {"name": name, "done": done, "total": total})

    def step(self, record: Mapping[str, Any]) -> None:
        self._write("step", record)

    def message(self, text: str) -> None:
        self._write("message", {"text": text})

    def finish(self, summary: Mapping[str, Any]) -> None:
        self._write("finish", {"summary": summary})

    def _write(self, event: str, values: Mapping[str, Any]) -> None:
        line = json.dumps({"event": event, **plain(values)}, ensure_ascii=False, default=str)
        self.stream.write(line + "\n")
        self.stream.flush()


def plain(value: Any) -> Any:
    """`value` with what JSON cannot say (NaN, infinities) as null."""
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class TimeLeft:
    """Seconds until the last step, from the median duration of recent steps; evaluations between them not counted."""

    def __init__(self, steps: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.steps, self.clock = steps, clock
        self._recent: deque[float] = deque(maxlen=_RECENT)
        self._mark = clock()
        self._between: float | None = None

    def phase(self, name: str, done: int, total: int) -> None:
        """An evaluation does not belong to the step it comes before."""
        if not name.startswith("eval"):
            return
        if self._between is None:
            self._between = self.clock()
        if done >= total:
            self._mark += self.clock() - self._between
            self._between = None

    def step(self, number: int) -> float:
        """Step `number` (from 1) is over; returns the seconds left."""
        now = self.clock()
        self._recent.append(max(0.0, now - self._mark))
        self._mark = now
        return statistics.median(self._recent) * max(0, self.steps - number)


def duration(seconds: float) -> str:
    """`4:05`, `1:02:03`."""
    whole = int(seconds + 0.5)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def figures(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The metrics of a record that are shown, as (label, value)."""
    found = []
    for label, names, form in FIGURES:
        value = next((record[name] for name in names if isinstance(record.get(name), (int, float))), None)
        if value is not None:
            found.append((label, form(value) if math.isfinite(value) else "-"))
    return found


class _Told(_Display):
    """What the displays for people share."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.console = console or Console()
        self._clock = clock
        self._steps = 0
        self._done = 0
        self._left = TimeLeft(0, clock)
        self._seen: dict[str, Any] = {}

    def start(self, run_title: str, steps: int) -> None:
        self._steps, self._left = steps, TimeLeft(steps, self._clock)
        self.message(run_title)

    def message(self, text: str) -> None:
        # a message may quote a model or an exception: no escape sequence reaches the terminal
        self.console.print(Text(text.replace("\x1b", "\\x1b")), soft_wrap=True)

    def finish(self, summary: Mapping[str, Any]) -> None:
        self.close()

    def _after(self, record: Mapping[str, Any]) -> tuple[list[tuple[str, str]], str]:
        """The figures of a step and the time left, after counting it."""
        self._done = int(record.get("step", self._done + 1))
        self._seen |= record  # an accuracy is measured now and then; the last one stays in sight
        return figures(self._seen), duration(self._left.step(self._done))


class LineProgress(_Told):
    """One line a step, for logs and pipes; of a phase, every quarter."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        self._quarters: dict[str, int] = {}

    def phase(self, name: str, done: int, total: int) -> None:
        self._left.phase(name, done, total)
        if not name.startswith("eval"):
            return  # what happens within a step is over before anybody reads it
        quarter = 4 * done // max(1, total)
        if self._quarters.get(name) != quarter:
            self._quarters[name] = quarter
            self.message(f"{name} {done}/{total}")

    def step(self, record: Mapping[str, Any]) -> None:
        shown, left = self._after(record)
        self.message("  ".join([f"step {self._done}/{self._steps}", *_joined(shown), f"left {left}"]))


class LiveProgress(_Told):
    """A line that is redrawn, with a second one under it while a phase goes on."""

    def __init__(self, console: Console | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(console, clock)
        columns = ("{task.description}", BarColumn(bar_width=20), MofNCompleteColumn(), "{task.fields[figures]}")
        shown = [TextColumn(c, markup=False) if isinstance(c, str) else c for c in columns]
        self._bars = RichProgress(*shown, console=self.console, expand=False)
        self._train: TaskID | None = None
        self._phase: tuple[str, TaskID] | None = None

    def start(self, run_title: str, steps: int) -> None:
        super().start(run_title, steps)
        self._train = self._bars.add_task("training", total=steps, figures="")
        self._bars.start()

    def phase(self, name: str, done: int, total: int) -> None:
        self._left.phase(name, done, total)
        if self._phase is None or self._phase[0] != name:
            self._end_phase()
            self._bars.start()  # an evaluation may come without training
            self._phase = name, self._bars.add_task(name, total=total, figures="")
        self._bars.update(self._phase[1], completed=done, total=total)
        if done >= total:
            self._end_phase()

    def _end_phase(self) -> None:
        if self._phase is not None:
            self._bars.remove_task(self._phase[1])
            self._phase = None

    def step(self, record: Mapping[str, Any]) -> None:
        self._end_phase()
        shown, left = self._after(record)
        if self._train is not None:
            text = "  ".join([*_joined(shown), f"left {left}"])
            self._bars.update(self._train, completed=self._done, figures=text)

    def close(self) -> None:
        self._bars.stop()


def _joined(shown: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{value} {label}" if label == "tokens/s" else f"{label} {value}" for label, value in shown]


Display = QuietProgress | JsonProgress | LineProgress | LiveProgress


def make_progress(mode: Mode = "auto", console: Console | None = None) -> Display:
    """The display of a mode; auto is live on a terminal and lines elsewhere. Use it as a context manager.

    Raises InputError for an unknown mode.
    """
    if mode == "json":
        return JsonProgress(None if console is None else cast(TextIO, console.file))
    console = console or Console()
    if console.is_jupyter:  # plain text in one output, instead of an output of its own for each line
        console = Console(force_jupyter=False, force_terminal=False)
    if mode == "auto":
        mode = "live" if console.is_terminal else "lines"
    match mode:
        case "live":
            return LiveProgress(console)
        case "lines":
            return LineProgress(console)
        case "quiet":
            return QuietProgress()
    raise InputError(f"unknown progress mode {mode!r}: choose auto, live, lines, quiet or json")
