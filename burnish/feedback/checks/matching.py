"""Which of two lists belong together: the pairing with the largest sum. Greedy pairing can fail a correct set."""

from __future__ import annotations

import math
from collections.abc import Sequence


def best_pairs(worth: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """Pairs (row, column) with the largest sum of `worth`, each row and each column at most once.

    The Hungarian method with potentials (Kuhn 1955; Munkres 1957), cubic in the longer side.

    >>> best_pairs([[1.0, 1.0], [0.0, 1.0]])
    [(0, 0), (1, 1)]
    """
    rows, columns = len(worth), len(worth[0]) if worth else 0
    if rows > columns:
        return sorted((r, c) for c, r in best_pairs([list(column) for column in zip(*worth, strict=True)]))
    row_of = [-1] * (columns + 1)  # the row that a column belongs to; the last column is where a search starts
    by_row, by_column = [0.0] * rows, [0.0] * (columns + 1)
    for row in range(rows):
        row_of[columns] = row
        _augment(worth, row_of, by_row, by_column, columns)
    return sorted((row_of[column], column) for column in range(columns) if row_of[column] >= 0)


def _augment(
    worth: Sequence[Sequence[float]], row_of: list[int], by_row: list[float], by_column: list[float], columns: int
) -> None:
    """Find the cheapest path (cost = -worth) from the row in the last column to a free column, and turn it round."""
    column, least = columns, [math.inf] * columns
    came_from, seen = [columns] * columns, [False] * (columns + 1)
    while row_of[column] >= 0:
        seen[column] = True
        row = row_of[column]
        for other in range(columns):
            if not seen[other] and (cost := -worth[row][other] - by_row[row] - by_column[other]) < least[other]:
                least[other], came_from[other] = cost, column
        nearest = min((c for c in range(columns) if not seen[c]), key=lambda c: least[c])
        step = least[nearest]
        for other in range(columns + 1):
            if seen[other]:
                by_row[row_of[other]] += step
                by_column[other] -= step
            elif other < columns:
                least[other] -= step
        column = nearest
    while column != columns:
        before = came_from[column]
        row_of[column], column = row_of[before], before
    row_of[columns] = -1
