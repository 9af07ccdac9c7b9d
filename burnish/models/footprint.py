"""What autograd keeps of a token in a model's forward pass, read off the model and not off its name.

A forward pass of a few tokens is watched, storage by storage: everything outside attention grows with the number of
tokens and nothing else, so it scales. What attention keeps depends on how a layout cuts it into calls (masks, copies of
ancestors' keys), so one call of each kind of layer is made on the layout in question. docs/memory.md has the measured
agreement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.overrides import TorchFunctionMode
from transformers.modeling_layers import GradientCheckpointingLayer

from burnish.models.devices import on_gpu
from burnish.models.forest import Forest
from burnish.models.language_model import LanguageModel

_PROBE = 32
"""Tokens of the watched pass."""
_PROBE_ROWS = 128
"""The same, and half of it, where attention does not go through our interface: such models work in chunks of 64."""


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
        how = {"scaling": self.scaling, "window": self.window, "softcap": self.softcap}
        with torch.no_grad():
            forest.attend(0, query, key, value, **how)  # makes the masks, which all layers share
        shared = forest.attention(self.heads * self.key_size).masks()
        with _Watch(shared) as watch:
            watch.alive = forest.attend(0, query, key, value, **how)
        return sum(watch.kept.values())


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
    passing: float
    """Bytes of a token that a forward pass makes and gives back before it ends."""
    attention: Counter[_Attention] = field(default_factory=Counter)
    """How many layers there are of each kind; empty where all of attention is in `per_token` and `per_pair`."""

    @classmethod
    def of(cls, model: LanguageModel) -> Activations:
        """Watch a forward pass of a few tokens. Leaves no gradient and changes nothing."""
        length = _PROBE if model.sharing else _PROBE_ROWS
        length = min(length, model.context_length or length)
        if not model.sharing:
            (long, made), (short, _) = (_row(model, n) for n in (length, length // 2))
            per_pair = max(0.0, (long / length - short / (length // 2)) / (length - length // 2))
            return cls(model, long / length - per_pair * length, per_pair, max(0.0, made - long) / length)
        forest = _line(model, length)
        layout = _Noted(forest)
        with _every_layer_kept(model), _Watch(_own(model)) as watch:
            watch.alive = model.hidden(forest.tokens, forest.positions, layout)
        kept, passing = sum(watch.kept.values()), max(0, watch.made - sum(watch.kept.values())) / length
        if on_gpu(model.device):
            return cls(model, kept / length, 0.0, passing)
        return cls(model, (kept - _in_attention(layout.seen, forest)) / length, 0.0, passing, layout.seen)

    def forest(self, forest: Forest) -> int:
        """Bytes that a forward pass over a forest keeps, no layer recomputed."""
        return int(len(forest) * self.per_token) + _in_attention(self.attention, forest)

    def rows(self, count: int, length: int) -> int:
        """The same for rows padded to one length: the path of models that cannot share."""
        return int(count * length * (self.per_token + length * self.per_pair))

    def sequence(self, length: int) -> int:
        """The same for one sequence of so many tokens."""
        return self.forest(_line(self.model, length)) if self.model.sharing else self.rows(1, length)

    def layer_inputs(self, tokens: int) -> int:
        """Bytes of what every layer is given, which is all that is kept where layers are recomputed."""
        width = int(self.model.config.hidden_size) * self.model.dtype.itemsize
        return self.model.num_layers * tokens * width


def _in_attention(kinds: Counter[_Attention], forest: Forest) -> int:
    """Bytes kept in all attention layers: those of each, and once the masks that they share."""
    return sum(count * kind.kept(forest) for kind, count in kinds.items()) + forest.mask_bytes()


def _line(model: LanguageModel, length: int) -> Forest:
    tokens = torch.arange(length, device=model.device) % model.vocab_size
    return Forest.build([tokens], [-1], device=model.device)


def _row(model: LanguageModel, length: int) -> tuple[int, int]:
    """Bytes kept and bytes made in a forward pass over one row."""
    row = torch.arange(length, device=model.device) % model.vocab_size
    with _every_layer_kept(model), _Watch(_own(model)) as watch:
        watch.alive = model.hidden_rows([row])
    return sum(watch.kept.values()), watch.made


def _own(model: LanguageModel) -> Iterator[Tensor]:
    yield from model.network.parameters()
    yield from model.network.buffers()


class _Watch(TorchFunctionMode):
    """A context with gradients on that notes which storages autograd keeps and how many bytes are made in all.

    What is computed must stay alive until the context ends, in `alive`: an address could be given out twice.
    """

    def __init__(self, known: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.kept: dict[int, int] = {}
        """Bytes by address of the kept storages that are not those of `known` tensors."""
        self.made = 0
        self.alive: Any = None
        self._known = {tensor.untyped_storage().data_ptr() for tensor in known}
        self._contexts = ExitStack()

    def __enter__(self) -> Self:
        self._contexts.enter_context(torch.enable_grad())
        self._contexts.enter_context(saved_tensors_hooks(self._note, lambda tensor: tensor))
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self._contexts.close()
        self.alive = None

    def _note(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self._known:
            self.kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {t.untyped_storage().data_ptr() for t in _tensors((args, kwargs))}
        made = {s.data_ptr(): s.nbytes() for t in _tensors(result) for s in [t.untyped_storage()]}
        self.made += sum(size for place, size in made.items() if place not in given)
        return result


def _tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested sequences and mappings."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _tensors(entry)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


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
