"""One process at a time: a lock file that the system lets go of when its holder dies, however it dies."""

from __future__ import annotations

import json
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has no advisory locks: there two runs in one directory are not noticed
    fcntl = None


class Lock:
    """Takes the lock at `path` if it is free; `held` says whether. Raises OSError when the file cannot be made."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a+", encoding="utf-8")
        self.held = True
        if fcntl is not None:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self.held = False
                return
            except OSError:
                pass  # a file system without locks: there two runs in one directory are not noticed
        self._file.truncate(0)
        self._file.write(json.dumps({"pid": os.getpid()}))
        self._file.flush()

    def owner(self) -> str:
        """Who holds it, in words: " (process 123)", or nothing where that is not known."""
        try:
            return f" (process {json.loads(self.path.read_text('utf-8'))['pid']})"
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def release(self) -> None:
        """Let go. The file stays: removing it would let two others hold two different files of one name."""
        self._file.close()
        self.held = False
