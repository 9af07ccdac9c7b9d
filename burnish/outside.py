"""Answers from outside of the run: a reward function, a judge, a teacher behind a network. Asked once, then replayed.

A run that is killed and resumed repeats the steps after its last checkpoint. What Burnish computes comes out the same,
but a foreign function may answer differently the second time, or cost money. So every such call goes through an
`Outside`, which a run makes a journal of (promise E2). No torch here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Outside(Protocol):
    """Asks, or answers from what was asked before."""

    async def ask(self, kind: str, question: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The answer to a question: that of `ask`, or the recorded one of an earlier life of this run.

        `question` and the answer are JSON values. The same question asked again is asked again, unless the run's
        earlier life asked it as many times.
        """
        ...


class Direct:
    """Always asks."""

    async def ask(self, kind: str, question: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """What `ask` answers."""
        return await ask()


def content_hash(kind: str, question: Any) -> str:
    """The name of a question: a hash of its content, the same in every process."""
    text = json.dumps([kind, question], sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()
