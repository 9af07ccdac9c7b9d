"""What autograd keeps of a token in a model's forward pass, read off the model and not off its name.

A forward pass of a few tokens is watched, storage by storage: everything outside attention grows with the number of
tokens and nothing else, so it scales. What attention keeps depends on how a layout cuts it into calls (masks, copies of
ancestors' keys), so one call of each kind of layer is made on the layout in question. docs/memory.md has the measured
agreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from transformers.modeling_layers import GradientCheckpointingLayer

from burnish.models.forest import Forest
from burnish.models.language_model import LanguageModel

_PROBE = 32
"""Tokens of the watched pass."""


@dataclass(frozen=True)
class _Attention:
    """The kind of an attention layer: what decides what a call of it keeps."""

    heads: int
    kv_heads: int
    key_size: int
    value_size: int
    dtype: torch.dtype
    scaling: float
    window: int | None
    softcap: float | None

    def kept(self, forest: Forest) -> int:
        """Bytes that autograd keeps of one call on a forest."""
        count, device = len(forest), forest.positions.device
        query, key, value = (
            torch.zeros(1, heads, count, size, dtype=self.dtype, device=device, requires_grad=True)
            for heads, size in (
                (self.heads, self.key_size), (self.kv_heads, self.key_size), (self.kv_heads, self.value_size)
            )
        )  # fmt: skip
        with torch.enable_grad(), _watching(()) as kept:
            # held to the end: what it refers to must live for its bytes to be counted once
            out = forest.attend(0, query, key, value, scaling=self.scaling, window=self.window, softcap=self.softcap)
        del out
        return sum(kept.values())


class _Noted:
    """A layout that hands on to a forest and notes the kinds of attention that pass."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.seen: Counter[_Attention] = Counter()

    def attend(
        self,
        layer: int,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        scaling: float,
        window: int | None,
        softcap: float | None,
    ) -> Tensor:
        """See AttentionLayout."""
        sizes = (query.shape[1], key.shape[1], query.shape[-1], value.shape[-1], query.dtype)
        self.seen[_Attention(*sizes, scaling, window, softcap)] += 1
        return self.forest.attend(layer, query, key, value, scaling=scaling, window=window, softcap=softcap)


@dataclass(frozen=True)
class Activations:
    """What autograd keeps of a model's forward pass up to the last hidden states; get it with `of`."""

    model: LanguageModel
    per_token: float
    """Bytes of a token outside attention; on a GPU, and where attention does not go through our interface, of all."""
    per_pair: float
    """Bytes of a pair of tokens of one row, where attention does not go through our interface."""
    attention: Counter[_Attention]
    """How many layers there are of each kind; empty where all of attention is in `per_token` and `per_pair`."""

    @classmethod
    def of(cls, model: LanguageModel) -> Activations:
        """Watch a forward pass of a few tokens. Leaves no gradient and changes nothing."""
        length = min(_PROBE, model.context_length or _PROBE)
        if not model.sharing:
            half = length // 2
            long, short = (_rows_kept(model, n) for n in (length, half))
            per_pair = max(0.0, (long / length - short / half) / (length - half))
            return cls(model, long / length - per_pair * length, per_pair, Counter())
        forest = _line(model, length)
        layout = _Noted(forest)
        with _every_layer_kept(model), torch.enable_grad(), _watching(_own(model)) as kept:
            out = model.hidden(forest.tokens, forest.positions, layout)
        del out
        total = sum(kept.values())
        if model.device.type != "cpu":
            return cls(model, total / length, 0.0, Counter())
        attention = sum(layers * kind.kept(forest) for kind, layers in layout.seen.items())
        return cls(model, (total - attention) / length, 0.0, layout.seen)

    def forest(self, forest: Forest) -> int:
        """Bytes that a forward pass over a forest keeps, no layer recomputed."""
        attention = sum(layers * kind.kept(forest) for kind, layers in self.attention.items())
        return int(len(forest) * self.per_token) + attention

    def rows(self, count: int, length: int) -> int:
        """The same for rows padded to one length: the path of models that cannot share."""
        return int(count * length * (self.per_token + length * self.per_pair))

    def layer_inputs(self, tokens: int) -> int:
        """Bytes of what every layer is given, which is all that is kept where layers are recomputed."""
        width = int(self.model.config.hidden_size) * self.model.dtype.itemsize
        return self.model.num_layers * tokens * width


def _line(model: LanguageModel, length: int) -> Forest:
    tokens = torch.arange(length, device=model.device) % model.vocab_size
    return Forest.build([tokens], [-1], device=model.device)


def _rows_kept(model: LanguageModel, length: int) -> int:
    row = torch.arange(length, device=model.device) % model.vocab_size
    with _every_layer_kept(model), torch.enable_grad(), _watching(_own(model)) as kept:
        out = model.hidden_rows([row])
    del out
    return sum(kept.values())


def _own(model: LanguageModel) -> Iterator[Tensor]:
    yield from model.network.parameters()
    yield from model.network.buffers()


@contextmanager
def _watching(known: Iterable[Tensor]) -> Iterator[dict[int, int]]:
    """Bytes by address of the storages that autograd keeps in the block, but for those of `known` tensors.

    Whatever is kept must stay alive until the block ends: an address could be given out twice.
    """
    given = {tensor.untyped_storage().data_ptr() for tensor in known}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in given:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        yield kept


@contextmanager
def _every_layer_kept(model: LanguageModel) -> Iterator[None]:
    """Layers that are recomputed in the backward pass keep everything in the block, as they do while recomputed."""
    off = [m for m in model.network.modules() if isinstance(m, GradientCheckpointingLayer) and m.training]
    for layer in off:
        layer.training = False
    try:
        yield
    finally:
        for layer in off:
            layer.training = True
