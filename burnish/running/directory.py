"""The run directory: what other programs may rely on finding there.

config.yaml (resolved), run.json (identity and machine), metrics.jsonl (one object a step), journal.jsonl (what
happened, answers from outside), evaluations/*.json, traces/*.parquet, checkpoints/step-N/, final/ (loads with
transformers or peft), summary.json, report.html, heartbeat.json; discarded/ holds what a resume went back behind.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.running.beats import HEARTBEAT, describe_heartbeat, read_heartbeat
from burnish.running.journal import Journal
from burnish.running.lock import Lock
from burnish.traces import Group
from burnish.traces.files import atomic_write, flush
from burnish.traces.store import write_groups

LOCK = ".lock"
_FOLDERS = ("evaluations", "traces", "checkpoints")
_BEFORE_IT_BEGINS = re.compile(
    r"\.lock|run\.json|journal\.jsonl|heartbeat\.json|stacks-frozen\.txt|\.(run\.json|config\.yaml|heartbeat\.json)\..*"
)


def fresh_directory(parent: Path, name: str) -> Path:
    """A new folder `name` in `parent`, or `name-2`, `name-3`, ... when it is taken; made here, so it stays ours."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for path in numbered(parent, name):
            try:
                path.mkdir()
            except FileExistsError:
                continue
            return path
    except OSError as error:
        raise InputError(f"no run directory can be made in {parent} ({error.strerror}); give one with --out") from None
    raise InputError(f"{parent} holds too many runs called {name}; give a run directory with --out")


def numbered(parent: Path, name: str) -> Iterator[Path]:
    """`name`, `name-2`, `name-3`, ... in `parent`."""
    for number in range(1, 100_000):
        yield parent / (name if number == 1 else f"{name}-{number}")


def newest_directory(parent: Path, name: str) -> Path | None:
    """The last of the numbered folders that `fresh_directory` made; told by its number, since clocks may be set."""
    found = None
    for path in numbered(parent, name):
        if not path.exists():
            return found
        found = path
    return found


class RunDirectory:
    """A run's directory, held by a lock for as long as the process lives. Get one with `claim` or `reopen`."""

    def __init__(self, path: Path, lock: Lock, *, lock_is_new: bool) -> None:
        self.named = path
        """As the user gave it."""
        self.path = path.absolute()  # a reward function may change the current folder
        self._lock, self._lock_is_new = lock, lock_is_new

    # -- getting one ---------------------------------------------------------------------------------------------

    @classmethod
    def claim(cls, path: Path) -> tuple[RunDirectory, bool]:
        """A directory for a new run, and whether it was made just now. Raises InputError when it holds anything."""
        directory, made = cls._locked(path)
        held = directory.held
        if held:
            directory._leave()
            if "config.yaml" in held or "metrics.jsonl" in held:
                raise InputError(
                    f"{path} already holds a run: continue it with --resume, or choose another --out for a new one"
                )
            raise InputError(f"{path} is not empty: a run needs a directory of its own, choose another --out")
        return directory, made

    @classmethod
    def reopen(cls, path: Path) -> tuple[RunDirectory, bool]:
        """The directory of a run to go on with, or of a new run when it holds none yet, and whether it was made."""
        directory, made = cls._locked(path)
        held = directory.held
        if held and not directory.holds_run:
            directory._leave()
            raise InputError(f"{path} holds other files and no run ({held[0]}, ...): there is nothing to resume")
        return directory, made

    @classmethod
    def _locked(cls, path: Path) -> tuple[RunDirectory, bool]:
        try:
            made = not path.exists()
            path.mkdir(parents=True, exist_ok=True)
            lock_is_new = not (path / LOCK).exists()
            lock = Lock(path / LOCK)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{path} is a file, or lies below one: choose another --out") from None
        except OSError as error:
            raise InputError(f"the run directory {path} cannot be made or written: {error.strerror}") from None
        if not lock.held:
            doing = describe_heartbeat(read_heartbeat(path))
            raise InputError(
                f"{path} is in use by another run{lock.owner()}: choose another --out, or wait for it ({doing})"
            )
        return cls(path, lock, lock_is_new=lock_is_new), made

    def _leave(self) -> None:
        """Leave a directory as it was found: it is somebody else's."""
        if self._lock_is_new:
            (self.path / LOCK).unlink(missing_ok=True)
        self.close()

    @property
    def held(self) -> list[str]:
        """What is there, without what a run leaves that was killed before it had begun."""
        if self.holds_run:
            return sorted(entry.name for entry in self.path.iterdir() if entry.name != LOCK)
        return sorted(entry.name for entry in self.path.iterdir() if not _BEFORE_IT_BEGINS.fullmatch(entry.name))

    @property
    def holds_run(self) -> bool:
        """Whether a run has begun here."""
        return (self.path / "config.yaml").is_file()

    @property
    def finished(self) -> bool:
        """Whether a run has ended here."""
        return (self.path / "summary.json").is_file() and (self.path / "final").is_dir()

    def close(self) -> None:
        """Let another process have the directory."""
        self._lock.release()

    def give_up(self, *, remove: bool) -> None:
        """Take back the claim when nothing was recorded; `remove` the directory itself when it was made for this."""
        ours = {"config.yaml", "run.json", "journal.jsonl", HEARTBEAT, f".{HEARTBEAT}.new", LOCK}
        if any(p.is_file() and p.name not in ours for p in self.path.rglob("*")):
            return
        if Journal(self.path / "journal.jsonl").holds_answers:  # they may have cost money
            return
        for name in sorted(ours):
            (self.path / name).unlink(missing_ok=True)
        for folder in _FOLDERS:
            if (self.path / folder).is_dir():
                (self.path / folder).rmdir()
        if remove:
            self.path.rmdir()

    # -- writing -------------------------------------------------------------------------------------------------

    def write_config(self, text: str) -> None:
        """The resolved recipe."""
        with self.writing("config.yaml") as path:
            atomic_write(path, text)

    def write_json(self, name: str, values: Mapping[str, Any]) -> None:
        """A JSON file; a number that is not finite becomes null."""
        with self.writing(name) as path:
            text = json.dumps({k: finite(v) for k, v in values.items()}, indent=1, ensure_ascii=False)
            atomic_write(path, text + "\n")

    def append_metrics(self, record: Mapping[str, Any]) -> None:
        """One line of metrics.jsonl, handed to the system before this returns; `sync_metrics` forces it to disk.

        A number that is not finite becomes null.
        """
        line = json.dumps({k: finite(v) for k, v in record.items()}) + "\n"
        with self.writing("metrics.jsonl") as path, path.open("a", encoding="utf-8") as file:
            file.write(line)

    def sync_metrics(self) -> None:
        """Force every line so far to disk: before a checkpoint, which vouches for them. A resume discards later ones,
        so that it costs nothing when the machine, and not only the process, dies before they are there."""
        with self.writing("metrics.jsonl") as path:
            if path.exists():
                flush(path)

    def write_traces(self, step: int, groups: Sequence[Group]) -> None:
        """The groups of one step."""
        with self.writing(f"traces/step-{step:06d}.parquet") as path:
            write_groups(path, groups)

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        """summary.json."""
        self.write_json("summary.json", summary)

    def evaluation(self, name: str) -> Path:
        """Where an evaluation of that name belongs."""
        return self.path / "evaluations" / f"{name}.json"

    @contextmanager
    def writing(self, name: str) -> Iterator[Path]:
        """The path of a file of the run, to be written in the block. Raises RunError when the system refuses."""
        path = self.path / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            yield path
        except OSError as error:
            raise RunError(
                f"{path} could not be written ({error.strerror or error}); what is on disk is whole. "
                "Free some space or mend the disk, then go on with --resume"
            ) from error


def finite(value: Any) -> Any:
    """The value, or None for a float that JSON cannot say."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
