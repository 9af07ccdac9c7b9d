"""Ctrl-C and SIGTERM: the first asks the run to finish its step and save, the second stops it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

from burnish.errors import RunError

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTE = b"\nburnish: finishing this step, then saving; once more stops now\n"


class InterruptedRunError(RunError):
    """A run that was asked to stop, and saved first. The exit status is what shells give for Ctrl-C."""

    exit_status = 130


class Interrupts:
    """While the block runs, `requested` says whether a person or the system has asked for an end.

    Handlers are installed in the main thread only: elsewhere signals cannot be handled, and the program around decides.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
            outer = getattr(handler, "__self__", None)
            if self.requested and isinstance(outer, Interrupts):
                outer.requested = True  # a pipeline is asked through the run that is at work in it
        self._before = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        os.write(2, _NOTE)  # not print: a handler may run in the middle of a print
