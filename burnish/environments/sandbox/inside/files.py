"""Files put into a sandbox and taken out of it, with the candidate's own rights: links lead nowhere it could not go."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress

from .candidate import Setting, drop


def put(setting: Setting, path: str, content: bytes, mode: int) -> bytes:
    """Write a file and the directories on the way to it. Raises OSError."""

    def write() -> bytes:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(path)  # never through a link or into a pipe that a candidate left under this name
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
        return b""

    return _as_candidate(setting, write)


def get(setting: Setting, path: str, most: int) -> bytes:
    """Read a file of at most `most` bytes. Raises OSError: for links and whatever else is no plain file, too."""

    def read() -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode):
                raise OSError(f"{path}: no plain file")
            if info.st_size > most:
                raise OSError(f"{path}: {info.st_size} bytes, of which at most {most} are taken")
            return file.read(most)

    return _as_candidate(setting, read)


def used() -> tuple[int, int]:
    """Bytes and files in the writable part."""
    info = os.statvfs("/work")
    return (info.f_blocks - info.f_bfree) * info.f_frsize, info.f_files - info.f_ffree


def _as_candidate(setting: Setting, work: Callable[[], bytes]) -> bytes:
    """What `work` returns, done by a process with the candidate's user and no privileges."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        answer = b"!the process that was to do it ended early"
        try:
            drop(setting)
            answer = b"+" + work()
        except BaseException as error:  # noqa: BLE001 - this is a fork: it must end here, and tell why
            answer = b"!" + (str(error) or type(error).__name__).encode("utf-8", "replace")
        finally:
            with open(there, "wb") as pipe:
                pipe.write(answer)
            os._exit(0)
    os.close(there)
    with open(here, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if answer[:1] != b"+":
        raise OSError(answer[1:].decode("utf-8", "replace") or "the process that was to do it was killed")
    return answer[1:]
