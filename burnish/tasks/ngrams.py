"""Texts as words, n-grams and MinHash signatures: 64-bit numbers, the same in every process. numpy only.

MinHash: Broder 1997; signatures in bands as datatrove has them, 14 of 8 hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from burnish.randomness import counter_hash, stable_hash

Hashes = npt.NDArray[np.uint64]

BANDS, ROWS = 14, 8
_WORD = re.compile(r"\w+|[^\w\s]")
_BLOCK, _COLUMN = 2_000_000, 4096
_ODD = np.uint64(0x9E3779B97F4A7C15)
_SALTS = counter_hash(stable_hash("burnish.tasks.overlap"), np.arange(BANDS * ROWS, dtype=np.uint64))


def words_of(text: str) -> list[str]:
    """Words and marks of a text, whatever their case and the space between them."""
    return _WORD.findall(text.casefold())


class Words:
    """Words as numbers; a word is hashed once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def grams(self, texts: Iterable[str], n: int) -> Iterator[Hashes]:
        """Hashes of the different n-grams of each text, sorted; of a shorter text none. Texts are taken in blocks."""
        for block in _blocks(texts):
            known = self._numbers
            words = [[known.get(w) or known.setdefault(w, stable_hash(w)) for w in words_of(text)] for text in block]
            lengths = np.array([len(of_text) for of_text in words])
            flat = np.array([number for of_text in words for number in of_text], dtype=np.uint64)
            hashes = np.zeros(0, dtype=np.uint64)
            if len(flat) >= n:  # windows over the ends of texts are hashed too, and left out below
                hashes = counter_hash(*(flat[i : len(flat) - n + 1 + i] for i in range(n)))
            for start, length in zip(np.cumsum(lengths) - lengths, lengths, strict=True):
                yield np.unique(hashes[start : start + max(0, length - n + 1)])


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    size = 0
    for text in texts:
        block.append(text)
        size += len(text)
        if size > _BLOCK:
            yield block
            block, size = [], 0
    if block:
        yield block


def counted(texts: Sequence[Hashes]) -> tuple[Hashes, npt.NDArray[np.int64]]:
    """The different hashes of all texts, sorted, and how many texts each is in."""
    index, times = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *texts]), return_counts=True)
    return index, times.astype(np.int64)


def places(index: Hashes, wanted: Hashes) -> npt.NDArray[np.int64]:
    """Where in a sorted index those of the hashes stand that are there."""
    if not len(index) or not len(wanted):
        return np.zeros(0, dtype=np.int64)
    found = np.searchsorted(index, wanted)
    found[found == len(index)] = 0
    return found[index[found] == wanted]


def different(texts: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Texts with their numbers, each once: repeated rows do not turn a leak into wording."""
    seen: set[str] = set()
    for number, text in enumerate(texts):
        if text not in seen:
            seen.add(text)
            yield number, text


def bands(texts: Sequence[Hashes]) -> list[list[tuple[int, int]]]:
    """The bands of each text's MinHash signature; of a text without shingles none.

    Texts of Jaccard similarity s share one with probability 1 - (1 - s^8)^14.
    """
    found: list[list[tuple[int, int]]] = []
    for shingles in texts:
        if not len(shingles):
            found.append([])
            continue
        least = np.full(BANDS * ROWS, ~np.uint64(0))
        for start in range(0, len(shingles), _COLUMN):
            column = shingles[start : start + _COLUMN, None]
            with np.errstate(over="ignore"):  # one multiplication and a shift mix enough where minima alone are taken
                mixed = (column ^ _SALTS[None, :]) * _ODD
            least = np.minimum(least, (mixed ^ (mixed >> np.uint64(29))).min(axis=0))
        found.append(list(enumerate(hash(row.tobytes()) for row in least.reshape(BANDS, ROWS))))
    return found
