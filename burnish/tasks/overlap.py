"""Whether held-out tasks are among those that are trained on: same tasks, shared n-grams, near-duplicates. numpy only.

Sources: n-grams of 13 words as in Brown et al. 2020 (arXiv 2005.14165, appendix C), where n-grams that many documents
share are left out; near-duplicates by MinHash (Broder 1997) in 14 bands of 8 hashes over shingles of 5 words, what the
bands propose being checked by the exact Jaccard similarity.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from burnish.tasks.answers import Shown
from burnish.tasks.ngrams import Hashes, Words, bands, counted, different, words_of
from burnish.tasks.ngrams import places as places_in
from burnish.tasks.task import Task

Kind = Literal["same task", "same prompt", "ngram", "near"]
By = Literal["text", "prompt", "content"]

NGRAM = 13
"""Words of an n-gram that must not be shared."""
SIMILAR = 0.8
"""Jaccard similarity from which two prompts are near-duplicates."""
COMMON = 10
"""An n-gram that more texts than so many share, on either side, is wording and says nothing of a leak."""
LONGEST = 50_000_000
"""Characters of training text that are searched; of more the beginning."""
_SHINGLE, _LEAST, _SHOWN = 5, 3, 5
_SAID: dict[Kind, str] = {
    "same task": "are trained on themselves",
    "same prompt": "have a prompt that is trained on with another answer",
    "ngram": "share {n} words in a row with a training text",
    "near": "are near-duplicates of a training prompt",
}


@dataclass(frozen=True)
class Hit:
    """A held-out task and the first training task that gives it away."""

    task: str
    """Its id."""
    kind: Kind
    named: str
    """The held-out task as messages name it."""
    training: str
    """The training task as messages name it."""
    share: float
    """1 for the same prompt; the share of its n-grams that are found in training; the Jaccard similarity."""
    text: str
    """The beginning of the held-out prompt."""


@dataclass(frozen=True)
class Overlap:
    """What of an evaluation is in the data that is trained on. A task is counted once, by the first kind that fits."""

    held_out: int
    training: int
    searched: int
    """Training tasks that were looked at: fewer than all where there is too much text."""
    hits: tuple[Hit, ...] = field(repr=False)
    common: int = 0
    """Different n-grams of the held-out texts that were left out as wording."""
    ngram: int = NGRAM
    similar: float = SIMILAR

    @property
    def counts(self) -> dict[Kind, int]:
        """Held-out tasks of each kind."""
        return {kind: sum(hit.kind == kind for hit in self.hits) for kind in _SAID}

    @property
    def share(self) -> float:
        """Share of the held-out tasks that training gives away."""
        return len(self.hits) / self.held_out if self.held_out else 0.0

    @property
    def same(self) -> int:
        """Held-out tasks that are trained on themselves."""
        return self.counts["same task"]

    def lines(self) -> list[str]:
        """What a person should know, a sentence for each kind; nothing where nothing was found."""
        found = [
            f"CONTAMINATION: {count} of {self.held_out} held-out tasks {_SAID[kind].format(n=self.ngram)}"
            f"{self._much(kind)} (such as {self.example(kind)})"
            for kind, count in self.counts.items()
            if count
        ]
        if self.searched < self.training:
            found.append(
                f"contamination: only the first {self.searched} of {self.training} training tasks were searched, "
                f"{LONGEST:,} characters"
            )
        return found

    def worst(self, kind: Kind) -> list[Hit]:
        """The tasks of a kind, those first that are given away most."""
        return sorted((hit for hit in self.hits if hit.kind == kind), key=lambda hit: -hit.share)

    def example(self, kind: Kind) -> str:
        """The task of a kind that is given away most, and where it was found."""
        hit = self.worst(kind)[0]
        return f"{hit.named} and {hit.training}, {100 * hit.share:.0f} %: {hit.text!r}"

    def _much(self, kind: Kind) -> str:
        many = sum(hit.share > 0.5 for hit in self.hits if hit.kind == "ngram")
        return f", {many} of them more than half of their {self.ngram}-grams" if kind == "ngram" else ""

    def to_json(self) -> dict[str, Any]:
        """As JSON values: counts, ids, and a few hits in full."""
        examples = [
            {"task": h.task, "kind": h.kind, "training": h.training, "share": h.share, "text": h.text}
            for kind in _SAID
            for h in self.worst(kind)[:_SHOWN]
        ]
        return {
            "held_out": self.held_out, "training": self.training, "searched": self.searched,
            "contaminated": len(self.hits), "share": self.share, "counts": dict(self.counts),
            "ngram": self.ngram, "similar": self.similar, "common_ngrams": self.common,
            "examples": examples, "tasks": [hit.task for hit in self.hits],
        }  # fmt: skip


def overlap(
    held_out: Sequence[Task],
    training: Sequence[Task],
    *,
    by: By = "text",
    ngram: int = NGRAM,
    similar: float = SIMILAR,
) -> Overlap:
    """Look for held-out tasks in training data.

    The same task: the same prompt (but for case and space) with the same answer, or with none to compare; a
    demonstration makes no difference. By "text" a held-out task is also given away when `ngram` words in a row of its
    prompt and answer stand in a training text, or when its prompt is similar to a training prompt from `similar` on. By
    "prompt" that is not looked at: for generated families, whose items all share their wording. By "content" only tasks
    with equal columns are the same: for worlds, where a prompt does not tell the task. Raises ValueError for an `ngram`
    below 2 and a similarity outside (0, 1].
    """
    if ngram < 2 or not 0 < similar <= 1:
        raise ValueError(f"needs ngram >= 2 and 0 < similar <= 1, got {ngram} and {similar}")
    found: dict[str, Hit] = {}
    searched = list(training[: _within(training)])
    _same(held_out, searched, found, by)
    common = 0
    if by == "text":
        words = Words()
        common = _ngrams(held_out, searched, found, words, ngram)
        _near(held_out, searched, found, words, similar)
    hits = tuple(found[task.id] for task in held_out if task.id in found)
    return Overlap(len(held_out), len(training), len(searched), hits, common, ngram, similar)


def _within(training: Sequence[Task]) -> int:
    total = 0
    for number, task in enumerate(training):
        total += len(_whole(task))
        if total > LONGEST:
            return number
    return len(training)


# ---------------------------------------------------------------- the same task


def _same(held_out: Sequence[Task], training: Sequence[Task], found: dict[str, Hit], by: By) -> None:
    """Tasks with the same prompt. Of several training tasks one with the same answer is named."""
    by_prompt: dict[str, list[Task]] = {}
    wanted = {_identity(task, by) for task in held_out}
    for task in training:
        if (key := _identity(task, by)) in wanted:
            by_prompt.setdefault(key, []).append(task)
    for task in held_out:
        others = by_prompt.get(_identity(task, by), ())
        if not others:
            continue
        alike = next((o for o in others if o.answer is None or task.answer is None or o.answer == task.answer), None)
        found[task.id] = _hit(task, "same prompt" if alike is None else "same task", alike or others[0], 1.0)


def _identity(task: Task, by: By) -> str:
    prompt = " ".join(words_of(task.text))
    if by != "content":
        return prompt
    return json.dumps([prompt, task.answer, task.columns], sort_keys=True, ensure_ascii=False)


def _hit(task: Task, kind: Kind, other: Task, share: float) -> Hit:
    text = " ".join(task.text.split())
    return Hit(task.id, kind, task.named, other.named, share, text if len(text) <= 80 else f"{text[:79]}…")


# ---------------------------------------------------------------- n-grams


def _said(shown: Shown) -> str:
    return shown if isinstance(shown, str) else " ".join(str(message.get("content") or "") for message in shown)


def _whole(task: Task) -> str:
    """Everything that a task says: the prompt, and what others wrote after it."""
    answer = [] if task.answer is None or task.shown else [task.answer]
    return "\n".join([task.text, *answer, *(_said(shown) for shown in task.shown)])


def _ngrams(held_out: Sequence[Task], training: Sequence[Task], found: dict[str, Hit], words: Words, n: int) -> int:
    """Mark tasks with an n-gram that a training text has; the number of n-grams left out as wording."""
    own = list(words.grams((_whole(task) for task in held_out), n))
    index, times = counted(own)
    seen = np.zeros(len(index), dtype=np.int64)
    first = np.full(len(index), -1, dtype=np.int64)
    others = list(different(_whole(task) for task in training))
    for (number, _), grams in zip(others, words.grams((text for _, text in others), n), strict=True):
        places = places_in(index, grams)
        first[places] = np.where(first[places] < 0, number, first[places])
        seen[places] += 1
    wording = (times > COMMON) | (seen > COMMON)
    for task, grams in zip(held_out, own, strict=True):
        places = np.searchsorted(index, grams)
        shared = places[(seen[places] > 0) & ~wording[places]]
        if task.id not in found and len(shared):
            found[task.id] = _hit(task, "ngram", training[int(first[shared[0]])], len(shared) / len(grams))
    return int((wording & (seen > 0)).sum())


# ---------------------------------------------------------------- near-duplicates


def _told_apart(shingles: Hashes, wording: Hashes) -> Hashes:
    """The shingles that are no wording; none where too few are left to tell a text by."""
    kept = shingles[~np.isin(shingles, wording, assume_unique=True)]
    return kept if len(kept) >= _LEAST else kept[:0]


def _near(
    held_out: Sequence[Task], training: Sequence[Task], found: dict[str, Hit], words: Words, similar: float
) -> None:
    """Mark tasks whose prompt is similar to a training prompt, wording left out."""
    open_tasks = [task for task in held_out if task.id not in found]
    others = list(different(task.text for task in training))
    if not open_tasks or not others:
        return
    mine = list(words.grams((task.text for task in held_out), _SHINGLE))
    theirs = list(words.grams((text for _, text in others), _SHINGLE))
    (index, times), (index_there, times_there) = counted(mine), counted(theirs)
    wording = np.union1d(index[times > COMMON], index_there[times_there > COMMON])
    table: dict[tuple[int, int], list[int]] = {}
    kept = [_told_apart(shingles, wording) for shingles in theirs]
    for place, of_text in enumerate(bands(kept)):
        for band in of_text:
            table.setdefault(band, []).append(place)
    of_task = {task.id: _told_apart(shingles, wording) for task, shingles in zip(held_out, mine, strict=True)}
    for task, of_text in zip(open_tasks, bands([of_task[task.id] for task in open_tasks]), strict=True):
        shingles = of_task[task.id]
        near = [
            (len(np.intersect1d(shingles, kept[p], assume_unique=True)), p)
            for p in dict.fromkeys(place for band in of_text for place in table.get(band, ()))
        ]
        alike = [(both / (len(shingles) + len(kept[p]) - both), -p) for both, p in near]
        best, place = max(alike, default=(0.0, 0))
        if best >= similar:
            found[task.id] = _hit(task, "near", training[others[-place][0]], best)
