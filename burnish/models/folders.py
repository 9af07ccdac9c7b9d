"""Where models are cached, and folders that are either whole or absent. No torch here."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from burnish.errors import InputError

try:
    import fcntl
except ImportError:  # Windows has no advisory locks: two processes may then do the same work, and neither harms
    fcntl = None

_MODEL_FILES = ("config.json", "adapter_config.json")

BESIDE_WEIGHTS = (
    "generation_config.json", "tokenizer*", "special_tokens_map.json", "added_tokens.json", "vocab*", "merges.txt",
    "chat_template*", "*.model", "*.tiktoken",
)  # fmt: skip
"""Patterns of what belongs to a model folder besides its configuration and weights."""


def cache_directory() -> Path:
    """Where fetched and converted models are kept: $BURNISH_CACHE, or .cache/burnish in the user's home."""
    chosen = os.environ.get("BURNISH_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "burnish"


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a fresh folder beside `path` to fill; when the block ends without an error it takes the place of `path`.

    An older model folder at `path` is replaced; any other file or folder with something in it is refused with
    InputError before the block runs, so that a mistyped path never deletes the user's own files.
    """
    target = Path(path).absolute()
    check_replaceable(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.parent / f".{target.name[:100]}.{secrets.token_hex(8)}"
    try:  # named before it is made: a signal that lands while it is made finds it here to remove
        aside.mkdir()
        yield aside
        for file in [*aside.rglob("*"), aside]:
            _flush(file)
        _swap(aside, target)
        _flush(target.parent)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file while the block runs, so that of several processes one works and the others wait for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file closes, also when the process dies
        yield


def is_model_folder(path: Path) -> bool:
    """Whether a folder holds a transformers model or a peft adapter."""
    return any((path / name).is_file() for name in _MODEL_FILES)


def check_replaceable(target: Path) -> None:
    """Raise InputError where a model folder cannot stand: at a file or below one, and in the place of a folder with
    other files."""
    if target.is_file():
        raise InputError(f"{target} is a file: give the path of a folder to save the model in")
    above = next(folder for folder in target.absolute().parents if folder.exists())
    if not above.is_dir():
        raise InputError(f"{above} is a file: give the path of a folder to save the model in")
    if target.is_dir() and any(target.iterdir()) and not is_model_folder(target):
        raise InputError(f"{target} holds other files, which saving a model would delete: give a new or empty folder")


def _swap(aside: Path, target: Path) -> None:
    """Rename `aside` to `target`. A folder cannot be renamed over a full one, so an older one steps out first."""
    if not target.exists():
        aside.rename(target)
        return
    old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:100]}.old."))
    target.rename(old / target.name)
    try:
        aside.rename(target)
    except BaseException:  # a signal as well as a disk
        (old / target.name).rename(target)
        raise
    shutil.rmtree(old)


def _flush(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
