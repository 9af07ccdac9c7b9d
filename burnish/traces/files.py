"""Files that are either whole or absent: written aside in the same directory, flushed to disk, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a fresh path beside `path` to write to; when the block ends without an error it replaces `path`.

    The directory is made when it is missing. On an error the aside file is removed and `path` is left as it was.
    The aside name keeps the suffix, since some writers choose their format by it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=target.suffix)
    os.close(handle)
    aside = Path(name)
    try:
        os.chmod(aside, 0o666 & ~_umask())  # mkstemp makes it private; a result file is as open as the user's others
        yield aside
        flush(aside)
        os.replace(aside, target)
        flush(target.parent)
    except BaseException:
        with suppress(FileNotFoundError):
            aside.unlink()
        raise


def atomic_write(path: str | os.PathLike[str], content: bytes | str) -> None:
    """Write bytes, or text as UTF-8 with its line ends untouched, so that no reader ever sees half of it."""
    with atomic_path(path) as aside:
        aside.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def flush(path: Path) -> None:
    """Force a file or a directory entry to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
