"""The journal: what happened in a run, one JSON object a line, and the answers from outside that a resume replays."""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from burnish.errors import RunError
from burnish.outside import content_hash


class Journal:
    """Appends events, and is the run's `Outside`: each answer is recorded, and replayed when its step is repeated.

    `step` is the step that is being worked on, counted from 0; the loop sets it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.step = 0
        self._recorded: dict[tuple[int, str], deque[Any]] = defaultdict(deque)
        self.replayed = 0

    def recall(self, step: int) -> None:
        """Get ready to replay the answers of steps `step` and later, which an earlier life of the run was given.

        Answers are forgotten where the run went on with a changed recipe, and those of a step that they brought to an
        end: a reward function that could not be reached is asked again.
        """
        self._recorded = self._answers(step)

    @property
    def holds_answers(self) -> bool:
        """Whether there is anything to replay from the first step on."""
        return bool(self._answers(0))

    def _answers(self, step: int) -> dict[tuple[int, str], deque[Any]]:
        found: dict[tuple[int, str], deque[Any]] = defaultdict(deque)
        for event in self.events():
            kind, at = event.get("event"), event.get("step")
            if not isinstance(at, int):
                continue
            if kind == "judging failed" or (kind == "resumed" and event.get("changed")):
                for place in [place for place in found if place[0] >= at]:
                    del found[place]
            elif kind == "answer" and at >= step and "key" in event:
                found[at, str(event["key"])].append(event.get("answer"))
        return found

    def note(self, event: str, **values: Any) -> None:
        """Append an event with the time of day, which is for people only: nothing is decided by it."""
        self._append({"event": event, "time": round(time.time(), 3), **values})

    async def ask(self, kind: str, question: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
        """See `Outside.ask`."""
        key, step = content_hash(kind, question), self.step
        if recorded := self._recorded.get((step, key)):
            self.replayed += 1
            return recorded.popleft()
        answer = await ask()
        self._append({"event": "answer", "step": step, "kind": kind, "key": key, "answer": answer})
        return answer

    def events(self) -> Iterator[dict[str, Any]]:
        """The events on disk. A line that is none, which a kill or a full disk leaves, is passed over."""
        if not self.path.exists():
            return
        with self.path.open("rb") as lines:
            for line in lines:
                try:
                    event = json.loads(line)
                except ValueError:
                    continue
                if isinstance(event, dict):
                    yield event

    def _append(self, event: dict[str, Any]) -> None:
        # one write of a whole line; a torn line before it, left by a kill, is closed off first
        try:
            with self.path.open("ab+") as file:
                torn = False
                if file.tell():
                    file.seek(-1, 2)
                    torn = file.read(1) != b"\n"
                file.write(b"\n" * torn + json.dumps(event).encode("ascii") + b"\n")
        except OSError as error:
            raise RunError(
                f"{self.path} could not be written ({error.strerror}); free some space, then go on with --resume"
            ) from error
