"""Traces: what happened, as a tree of token deltas.

A node holds the tokens that were added after its parent; a root-to-leaf path is exactly what an engine saw. Ids are
stored once and text is derived from them, never the other way round (promise E6). Alignment is checked when a node
or a signal is written, and a policy-gradient weight on a token that the learner did not sample is refused (E7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from burnish.errors import PromiseError

if TYPE_CHECKING:
    from burnish.traces.groups import Span

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.floating[Any]]


class AuthorKind(StrEnum):
    """Who produced a token."""

    CONTEXT = "context"
    ENVIRONMENT = "environment"
    DEMONSTRATION = "demonstration"
    MODEL = "model"


@dataclass(frozen=True, order=True)
class Author:
    """Who produced a token; for a model also its name and the weight version that sampled it."""

    kind: AuthorKind
    name: str = ""
    version: int = -1

    def __post_init__(self) -> None:
        if self.kind is AuthorKind.MODEL and (not self.name or self.version < 0):
            raise ValueError("a model author needs a name and a weight version >= 0")
        if self.kind is not AuthorKind.MODEL and self.version != -1:
            raise ValueError(f"only a model has a weight version, not {self.kind}")

    @classmethod
    def model(cls, name: str, version: int) -> Author:
        """The author of tokens sampled from the named model at a weight version."""
        return cls(AuthorKind.MODEL, name, version)


CONTEXT = Author(AuthorKind.CONTEXT)
ENVIRONMENT = Author(AuthorKind.ENVIRONMENT)
DEMONSTRATION = Author(AuthorKind.DEMONSTRATION)


class Role(StrEnum):
    """What a token is for."""

    PROMPT = "prompt"
    THOUGHT = "thought"
    ACTION = "action"
    OBSERVATION = "observation"
    ANSWER = "answer"
    SCAFFOLD = "scaffold"
    TASK = "task"


ROLES: tuple[Role, ...] = tuple(Role)
"""Order of the role codes held in `Node.roles`."""


class SignalKind(StrEnum):
    """What a signal may be used for."""

    POLICY = "policy"
    """Weight of a policy gradient: only on tokens the learner's own model sampled (E7)."""
    WEIGHT = "weight"
    """Weight of any other loss, such as cross-entropy: may sit on any token."""
    STATISTIC = "statistic"
    """A number about a token, such as a reference log-probability."""


@dataclass(frozen=True)
class Signal:
    """A named array over a node's tokens, shape [T] or [T, ...] with the further axes named. NaN: an absent value."""

    kind: SignalKind
    values: FloatArray
    axes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Support:
    """The token ids that truncated sampling (top-k, top-p, min-p) kept at each of a node's T tokens, ragged.

    `offsets` has T + 1 entries; `ids[offsets[t]:offsets[t + 1]]` is the kept set at token t. An empty set means that
    nothing was cut there, or that no model sampled the token.
    """

    offsets: npt.NDArray[np.int64]
    ids: IntArray

    def at(self, token: int) -> IntArray:
        """The kept ids at one token."""
        return self.ids[self.offsets[token] : self.offsets[token + 1]]


@dataclass
class Node:
    """A run of tokens appended after `parent` (-1: a root). Arrays are aligned, shape [T], and read-only.

    `authors` indexes `Trace.authors`, `roles` indexes `ROLES`. `logprobs` is the behaviour log-probability under the
    distribution that was sampled from (temperature and truncation included); it is NaN exactly where no model is the
    author. `meta` holds JSON values: finish reason, sampling parameters.
    """

    parent: int
    tokens: IntArray
    authors: npt.NDArray[np.int16]
    roles: npt.NDArray[np.int8]
    logprobs: npt.NDArray[np.float32]
    support: Support | None = None
    signals: dict[str, Signal] = field(default_factory=dict)
    meta: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.tokens)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = np.array(array)  # a private copy: the caller's array must not change a trace afterwards
    array.setflags(write=False)
    return array


class Trace:
    """A tree of nodes. Build it with `add`, read it by path, annotate it with `write`."""

    def __init__(self, id: str = "", meta: dict[str, Any] | None = None) -> None:
        self.id = id
        self.meta: dict[str, Any] = dict(meta or {})
        self.nodes: list[Node] = []
        self.authors: list[Author] = []
        self.spans: list[Span] = []
        self._author_index: dict[Author, int] = {}

    def add(
        self,
        parent: int,
        tokens: Sequence[int] | npt.NDArray[Any],
        author: Author | Sequence[Author],
        role: Role | Sequence[Role],
        logprobs: Sequence[float] | npt.NDArray[Any] | None = None,
        *,
        support: Support | None = None,
        meta: dict[str, Any] | None = None,
    ) -> int:
        """Append tokens after `parent` and return the new node's index.

        `author` and `role` are one value for all tokens or one per token; `logprobs` has one entry per token and must
        be finite exactly where a model is the author and NaN elsewhere; it may be left out when no model is.
        Raises ValueError on anything misaligned.
        """
        if not -1 <= parent < len(self.nodes):
            raise ValueError(f"trace {self.id!r} has no node {parent} to continue from")
        ids = np.asarray(tokens, dtype=np.int64).reshape(-1)
        if ids.size and (ids.min() < 0 or ids.max() > np.iinfo(np.int32).max):
            raise ValueError("token ids must be non-negative 32-bit integers")
        count = len(ids)
        authors = [author] * count if isinstance(author, Author) else list(author)
        roles = [role] * count if isinstance(role, str) else list(role)
        if len(authors) != count or len(roles) != count:
            raise ValueError(f"{count} tokens need as many authors and roles, got {len(authors)} and {len(roles)}")
        node = Node(
            parent=parent,
            tokens=_frozen(ids.astype(np.int32)),
            authors=_frozen(np.array([self._intern(a) for a in authors], dtype=np.int16)),
            roles=_frozen(np.array([ROLES.index(r) for r in roles], dtype=np.int8)),
            logprobs=_frozen(self._checked_logprobs(authors, logprobs)),
            support=self._checked_support(ids, support),
            meta=dict(meta or {}),
        )
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _intern(self, author: Author) -> int:
        if author not in self._author_index:
            self._author_index[author] = len(self.authors)
            self.authors.append(author)
        return self._author_index[author]

    @staticmethod
    def _checked_logprobs(
        authors: list[Author], logprobs: Sequence[float] | npt.NDArray[Any] | None
    ) -> npt.NDArray[np.float32]:
        sampled = np.array([a.kind is AuthorKind.MODEL for a in authors], dtype=bool)
        if logprobs is None:
            if sampled.any():
                raise ValueError("tokens sampled by a model need their sampling log-probabilities")
            return np.full(len(authors), np.nan, dtype=np.float32)
        values = np.asarray(logprobs, dtype=np.float32).reshape(-1)
        if len(values) != len(authors):
            raise ValueError(f"{len(authors)} tokens need as many log-probabilities, got {len(values)}")
        if not np.array_equal(np.isnan(values), ~sampled):
            raise ValueError("a sampling log-probability is present exactly where a model is the author, NaN elsewhere")
        if np.isinf(values).any() or (values[sampled] > 1e-3).any():
            raise ValueError("sampling log-probabilities must be finite and at most 0")
        return values

    @staticmethod
    def _checked_support(ids: npt.NDArray[np.int64], support: Support | None) -> Support | None:
        if support is None:
            return None
        count = len(ids)
        if len(support.offsets) != count + 1 or support.offsets[0] != 0 or support.offsets[-1] != len(support.ids):
            raise ValueError(f"kept support must have {count + 1} offsets running from 0 to the number of ids")
        if (np.diff(support.offsets) < 0).any():
            raise ValueError("kept support offsets must not decrease")
        for place, token in enumerate(ids):
            kept = support.at(place)
            if len(kept) and token not in kept:
                raise ValueError(f"token {place} ({token}) lies outside the support that sampling kept for it")
        return Support(
            _frozen(np.asarray(support.offsets, dtype=np.int64)), _frozen(np.asarray(support.ids, dtype=np.int32))
        )

    def path(self, leaf: int) -> list[int]:
        """Node indices from the root to `leaf`."""
        if not 0 <= leaf < len(self.nodes):
            raise ValueError(f"trace {self.id!r} has no node {leaf}")
        path = []
        while leaf != -1:
            path.append(leaf)
            leaf = self.nodes[leaf].parent
        return path[::-1]

    def leaves(self) -> list[int]:
        """Nodes without children, in order of creation."""
        parents = {node.parent for node in self.nodes}
        return [index for index in range(len(self.nodes)) if index not in parents]

    def children(self, node: int) -> list[int]:
        """Nodes that continue from `node`."""
        return [index for index, other in enumerate(self.nodes) if other.parent == node]

    def tokens(self, leaf: int) -> IntArray:
        """The token ids the engine saw on the path to `leaf`, shape [sum of T]."""
        return np.concatenate([self.nodes[n].tokens for n in self.path(leaf)] or [np.zeros(0, np.int32)])

    def sampled_by(self, node: int, model: str) -> npt.NDArray[np.bool_]:
        """Which of the node's tokens the named model sampled, shape [T]."""
        own = [a.kind is AuthorKind.MODEL and a.name == model for a in self.authors]
        return np.array(own, dtype=bool)[self.nodes[node].authors] if own else np.zeros(0, dtype=bool)

    def clear(self, name: str) -> None:
        """Remove a signal from every node, so that one written earlier is not taken for a new one."""
        for node in self.nodes:
            node.signals.pop(name, None)

    def write(
        self,
        node: int,
        name: str,
        values: Sequence[float] | npt.NDArray[Any],
        kind: SignalKind = SignalKind.STATISTIC,
        *,
        learner: str | None = None,
        axes: Iterable[str] = (),
    ) -> None:
        """Write a signal on a node's tokens, shape [T] plus one dimension per named axis; NaN where it is absent.

        Raises ValueError when it is misaligned or infinite, PromiseError (E7) when a policy-gradient weight would sit
        on a token that the model called `learner` did not sample.
        """
        array = np.asarray(values)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(np.float64)
        axes = tuple(axes)
        target = self.nodes[node]
        if array.ndim != 1 + len(axes) or array.shape[0] != len(target):
            expected = f"[{len(target)}" + "".join(f", {a}" for a in axes) + "]"
            raise ValueError(f"signal {name!r} needs shape {expected}, got {list(array.shape)}")
        if np.isinf(array).any():
            raise ValueError(f"signal {name!r} holds an infinite value")
        if kind is SignalKind.POLICY:
            if learner is None:
                raise ValueError(f"policy signal {name!r} must name the learner whose tokens it weights")
            foreign = ~np.isnan(array.reshape(len(target), -1)).all(axis=1) & ~self.sampled_by(node, learner)
            if foreign.any():
                where = int(np.flatnonzero(foreign)[0])
                raise PromiseError(
                    f"E7: token {where} of node {node} in trace {self.id!r} was not sampled by model {learner!r} "
                    f"(its author is {self.authors[target.authors[where]]}), so it cannot carry the policy-gradient "
                    f"weight {name!r}; leave it NaN or use a cross-entropy weight"
                )
        target.signals[name] = Signal(kind, _frozen(array), axes)
