"""From an optimizer step's trees to micro-batches. How the work is cut changes cost and nothing else (promise E1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.learning.collect import StepTokens, Tree
from burnish.models.flops import Run
from burnish.models.forest import Forest
from burnish.models.head import KeptSupport
from burnish.models.language_model import LanguageModel


@dataclass
class Piece:
    """Part of a tree that is computed together: nodes in order, and those whose trained tokens belong to this piece.

    A prefix that two pieces need is computed in both and trained in the first.
    """

    tree: Tree
    nodes: list[int]
    trains: set[int]

    def __len__(self) -> int:
        return sum(len(self.tree.trace.nodes[n]) for n in self.nodes)


def cut(tree: Tree, budget: int, share: bool) -> list[Piece]:
    """Cut a tree along its leaves into pieces of at most `budget` tokens; one piece per leaf when not sharing."""
    pieces: list[Piece] = []
    done: set[int] = set()
    current: dict[int, None] = {}
    size = 0
    # leaves of one root together, so that a trace with several roots is a forest of whole trees
    leaves = sorted(dict.fromkeys(tree.leaves), key=lambda leaf: tree.trace.path(leaf)[0])
    for position, leaf in enumerate(leaves):
        path = tree.trace.path(leaf)
        new = [n for n in path if n not in current]
        cost = sum(len(tree.trace.nodes[n]) for n in new)
        if current and (not share or size + cost > budget):
            pieces.append(Piece(tree, list(current), set(current) - done))
            done |= set(current)
            current, size = {}, 0
            new, cost = path, sum(len(tree.trace.nodes[n]) for n in path)
        current.update(dict.fromkeys(new))
        size += cost
        if position == len(leaves) - 1:
            pieces.append(Piece(tree, list(current), set(current) - done))
    return pieces


def pack(
    step: StepTokens, budget: int, *, share: bool = True, packing: bool = True, padded: bool = False
) -> list[list[Piece]]:
    """Micro-batches of pieces, each of at most `budget` tokens unless a single path is longer.

    With `padded` the rows of a micro-batch are padded to the longest, and the padding counts. A piece that trains
    nothing is left out.
    """
    pieces = [
        piece
        for tree in step.trees
        for piece in cut(tree, budget, share)
        if any(len(tree.trained[n][0]) for n in piece.trains)
    ]
    if padded:
        pieces.sort(key=len)
    batches: list[list[Piece]] = []
    for piece in pieces:
        if batches and packing and _cost([*batches[-1], piece], padded) <= budget:
            batches[-1].append(piece)
        else:
            batches.append([piece])
    return batches


def _cost(pieces: Sequence[Piece], padded: bool) -> int:
    """Tokens computed for some pieces together."""
    return max(map(len, pieces)) * len(pieces) if padded else sum(map(len, pieces))


@dataclass
class MicroBatch:
    """A forest, the flat tokens it trains, and where in the forest each is predicted from."""

    forest: Forest
    tokens: Tensor
    """Flat indices [m] into the optimizer step's tokens."""
    sources: Tensor
    """Forest positions [m] whose hidden states predict them."""
    targets: Tensor
    """Token ids [m]."""

    @classmethod
    def lay_out(cls, pieces: Sequence[Piece], device: torch.device) -> MicroBatch:
        """Lay pieces out as one forest. Raises InputError for a trained token that nothing stands before."""
        runs: list[Tensor] = []
        parents: list[int] = []
        trained: list[tuple[int, Piece, int]] = []
        for piece in pieces:
            slot_of: dict[int, int] = {}
            for node_index in piece.nodes:
                node = piece.tree.trace.nodes[node_index]
                slot_of[node_index] = len(runs)
                parents.append(slot_of.get(node.parent, -1))
                runs.append(torch.from_numpy(node.tokens.astype(np.int64)))
                if node_index in piece.trains and len(piece.tree.trained[node_index][0]):
                    trained.append((slot_of[node_index], piece, node_index))
        forest = Forest.build(runs, parents, device=device)
        flat, sources, targets = [], [], []
        for slot, piece, node_index in trained:
            offsets, indices = piece.tree.trained[node_index]
            places = forest.slots[slot].start + offsets - 1
            if offsets[0] == 0:
                places[0] = forest.predecessor(slot)
                if places[0] < 0:
                    raise InputError(
                        f"the first token of trace {piece.tree.trace.id!r} is to be trained, but nothing stands before "
                        "it to predict it from: start the trace with a prompt or a start token"
                    )
            flat.append(indices)
            sources.append(places)
            targets.append(piece.tree.trace.nodes[node_index].tokens[offsets].astype(np.int64))
        arrays = (torch.from_numpy(np.concatenate(a)).to(device) for a in (flat, sources, targets))
        return cls(forest, *arrays)

    @property
    def runs(self) -> list[Run]:
        """The tokens that are computed, for counting operations: what members of a tree share is there once."""
        return [(slot.position, slot.position + len(slot)) for slot in self.forest.slots]

    def hidden(self, model: LanguageModel) -> Tensor:
        """Hidden states [m, H] that predict the trained tokens. Raises InputError when a path exceeds the context."""
        model.check_length(max(s.position + len(s) for s in self.forest.slots))
        if model.sharing:
            states = model.hidden(self.forest.tokens, self.forest.positions, self.forest)
        else:
            states = torch.cat(model.hidden_rows([self.forest.tokens[s.start : s.stop] for s in self._rows()]))
        return states[self.sources]

    def _rows(self) -> list[_Row]:
        """Contiguous root-to-leaf paths, for models that cannot share prefixes (then no slot has two children)."""
        rows: list[_Row] = []
        for slot in self.forest.slots:
            if slot.parent < 0:
                rows.append(_Row(slot.start, slot.stop))
            else:
                rows[-1] = _Row(rows[-1].start, slot.stop)
        return rows

    def support(self, step: StepTokens) -> KeptSupport | None:
        """The kept support of the trained tokens whose sampling was truncated."""
        rows, ids = [], []
        for row, token in enumerate(self.tokens.tolist()):
            kept = step.support.get(token)
            if kept is not None:
                rows.append(np.full(len(kept), row, dtype=np.int64))
                ids.append(kept.astype(np.int64))
        if not rows:
            return None
        device = self.tokens.device
        return KeptSupport(
            torch.from_numpy(np.concatenate(rows)).to(device), torch.from_numpy(np.concatenate(ids)).to(device)
        )


@dataclass(frozen=True)
class _Row:
    start: int
    stop: int
