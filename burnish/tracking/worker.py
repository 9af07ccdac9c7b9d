"""The process of one tracker: `python -m burnish.tracking.worker LOCK SPEC`, told what to do line by line.

Input: JSON lists ["start", name, config, directory, resume_step], ["log", step, numbers], ["finish", summary, failed];
an end of input without "finish" is a run that was killed. Output: ["note" | "failed" | "done", text].
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from burnish.tracking.aside import take
from burnish.tracking.spec import TrackerSpec
from burnish.tracking.tracker import Tracker

ORPHAN_SECONDS = 60.0
"""How long a tracker may take to store the rest after the run's process has gone."""


def build(spec: TrackerSpec) -> Tracker:
    """The tracker of a spec, in this process. Its package is imported here."""
    match spec.kind:
        case "tensorboard":
            from burnish.tracking.tensorboard_files import TensorBoardTracker

            return TensorBoardTracker()
        case "trackio":
            from burnish.tracking.trackio_runs import TrackioTracker

            return TrackioTracker(spec)
        case "wandb":
            from burnish.tracking.wandb_runs import WandbTracker

            return WandbTracker(spec)


def main(lock: str, text: str) -> int:
    """Serve until the input ends; the exit status."""
    lines, say = _channels()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the run ends its trackers itself, so that they store the rest
    threading.Thread(target=_end_with_the_run, args=(os.getppid(),), daemon=True).start()
    os.set_inheritable(int(lock), False)  # what the tracker starts may outlive it
    take(int(lock), wait=True)
    try:
        serve(build(TrackerSpec.model_validate_json(text)), lines, say)
    except Exception as error:
        say("failed", f"{type(error).__name__}: {error}".strip()[:500])
        raise
    say("done", "")
    return 0


def serve(tracker: Tracker, lines: Iterator[list[Any]], say: Callable[[str, str], None]) -> None:
    """Do what the lines say, up to "finish" or their end."""
    with warnings.catch_warnings():
        _tell_first_warning(say)
        for verb, *values in lines:
            match verb:
                case "start":
                    name, config, directory, resume_step = values
                    say("note", tracker.start(name, config, Path(directory), resume_step))
                case "log":
                    tracker.log(*values)
                case "finish":
                    tracker.finish(*values)
                    return
        tracker.finish({}, True)


def _tell_first_warning(say: Callable[[str, str], None]) -> None:
    """trackio warns of what it could not store and goes on; a person should know of it, once."""
    told: list[str] = []
    printed = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if category is UserWarning and not told:
            told.append(str(message))
            say("note", told[0])
        printed(message, category, *place, **more)

    warnings.simplefilter("default", UserWarning)
    warnings.showwarning = show


def _channels() -> tuple[Iterator[list[Any]], Callable[[str, str], None]]:
    """The run's lines and a way to answer, out of reach of what else this process reads and prints."""
    source: BinaryIO = os.fdopen(os.dup(0), "rb")
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)

    def say(verb: str, text: str) -> None:
        with suppress(BrokenPipeError):  # the run was killed: nobody listens, and the rest is stored all the same
            os.write(answers, json.dumps([verb, text]).encode() + b"\n")

    return (json.loads(line) for line in source), say


def _end_with_the_run(parent: int) -> None:
    """End this process some time after the run's, whatever the tracker waits for."""
    while os.getppid() == parent:
        time.sleep(1.0)
    time.sleep(ORPHAN_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
