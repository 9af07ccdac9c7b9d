"""How the scheduler runs a model, and the plain way to, for models whose attention cannot be shared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from burnish.models.language_model import LanguageModel
from burnish.sampling.memory import ByteBudget, Cache
from burnish.sampling.requests import Request, Row


class Runner(Protocol):
    """What the scheduler needs of a way to run the model."""

    budget: ByteBudget

    def need(self, requests: Sequence[Request]) -> int:
        """Bytes of keys and values that running these to their ends would add."""
        ...

    def prefill(self, requests: Sequence[Request]) -> tuple[Tensor, int]:
        """Compute what is not cached of each request's history. Logits [requests, V] of the next token, and the
        number of tokens computed; `request.cache` covers the history afterwards."""
        ...

    def enter(self, rows: Sequence[Row]) -> None:
        """Give rows a place, so that `decode` runs them."""
        ...

    def decode(self) -> tuple[list[Row], Tensor]:
        """Feed each placed row its last token: the rows and the logits [rows, V] of their next ones."""
        ...

    def held(self, rows: Sequence[Row]) -> int:
        """Bytes that the caches of these rows will take once they have left."""
        ...

    def leave(self, rows: Sequence[Row]) -> list[Cache | None]:
        """Take rows out, placed or not; what is cached of each, None where nothing is kept."""
        ...

    def trim(self) -> None:
        """Give up the buffers that no row uses."""
        ...

    def clear(self) -> None:
        """Forget every row and give up all buffers."""
        ...


class PlainRunner:
    """For models whose attention cannot be shared: every step runs the whole sequences again. Correct, and slow.

    With `deterministic` each sequence runs by itself, so that its bits cannot depend on the others.
    """

    def __init__(self, model: LanguageModel, budget: ByteBudget, *, deterministic: bool = False) -> None:
        self.model, self.budget, self.deterministic = model, budget, deterministic
        self._rows: list[Row] = []

    def need(self, requests: Sequence[Request]) -> int:
        """See Runner. Nothing is cached."""
        return 0

    def prefill(self, requests: Sequence[Request]) -> tuple[Tensor, int]:
        """See Runner."""
        histories = [request.history for request in requests]
        return self._next(histories), sum(map(len, histories))

    def enter(self, rows: Sequence[Row]) -> None:
        """See Runner."""
        self._rows += rows
        for row in rows:
            row.place = self

    def decode(self) -> tuple[list[Row], Tensor]:
        """See Runner."""
        rows = list(self._rows)
        return rows, self._next([[*row.request.history, *row.tokens] for row in rows])

    def held(self, rows: Sequence[Row]) -> int:
        """See Runner. Nothing is cached."""
        return 0

    def leave(self, rows: Sequence[Row]) -> list[Cache | None]:
        """See Runner."""
        leaving = set(rows)
        self._rows = [row for row in self._rows if row not in leaving]
        for row in rows:
            row.place = None
        return [None] * len(rows)

    def trim(self) -> None:
        """See Runner. There are none."""

    def clear(self) -> None:
        """See Runner."""
        self._rows = []

    def _next(self, sequences: list[list[int]]) -> Tensor:
        rows = [torch.tensor(ids, device=self.model.device) for ids in sequences]
        if self.deterministic:
            return torch.cat([self.model.logits(self.model.hidden_rows([row])[0][-1:]) for row in rows])
        return self.model.logits(torch.stack([hidden[-1] for hidden in self.model.hidden_rows(rows)]))
