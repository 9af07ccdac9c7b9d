"""Floating point operations of a model, from its shapes: what its mathematics asks for, not what a kernel does.

A multiply-add is two operations. Counted are the products that grow with the model: linear maps, attention scores
and the weighted sums of values, and the vocabulary head where logits are asked for. Anything computed a second time
(recomputed layers, the lean head's chunks in the backward pass) counts once, and so does padding: not at all.
docs/ledger.md has the formula with its assumptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

if TYPE_CHECKING:
    from burnish.models.language_model import LanguageModel

Run = tuple[int, int]
"""Tokens at positions start:stop of a sequence that are computed, each attending to all before it and to itself."""


@dataclass(frozen=True)
class AttentionShape:
    """One softmax attention: query heads, the size of a query and of a value in each, and the sliding window."""

    heads: int
    key_size: int
    value_size: int
    window: int | None


@dataclass(frozen=True)
class Maps:
    """Parameters of the linear maps that one token passes, by whether their weights learn."""

    trained: int = 0
    frozen: int = 0

    @property
    def forward(self) -> int:
        """Operations of a token on its way forward: 2 a parameter."""
        return 2 * (self.trained + self.frozen)

    @property
    def backward(self) -> int:
        """And back: the gradient of the input, 2 a parameter, and where the weight learns that of the weight."""
        return 4 * self.trained + 2 * self.frozen


@dataclass(frozen=True)
class ModelFlops:
    """Counts the operations of one model, as it was at `of`: which weights learn, whether its adapter is on."""

    layers: Maps
    head: Maps
    attention: tuple[AttentionShape, ...]

    @classmethod
    def of(cls, model: LanguageModel) -> ModelFlops:
        """Read the shapes of a model."""
        layers, head = _summed(model.backbone, _Experts.of(model.config)), _summed(model.head.projection, None)
        return cls(layers, head, model.attention_shapes)

    def forward(self, runs: Iterable[Run], projected: int) -> int:
        """Operations of computing the tokens of `runs` once, and logits at `projected` of them."""
        runs = list(runs)
        return _tokens(runs) * self.layers.forward + projected * self.head.forward + self._attention(runs)

    def training(self, runs: Iterable[Run], projected: int) -> int:
        """Operations of a forward and a backward pass.

        Going back, the two products of attention have two operands each that need a gradient, whatever learns.
        """
        runs = list(runs)
        back = _tokens(runs) * self.layers.backward + projected * self.head.backward + 2 * self._attention(runs)
        return self.forward(runs, projected) + back

    def _attention(self, runs: Sequence[Run]) -> int:
        pairs = {window: sum(visible(*run, window) for run in runs) for window in {s.window for s in self.attention}}
        return sum(2 * s.heads * (s.key_size + s.value_size) * pairs[s.window] for s in self.attention)


def visible(start: int, stop: int, window: int | None = None) -> int:
    """Keys that the queries at positions start:stop see, summed: position p sees p + 1, or `window` if that is less.

    >>> visible(0, 4), visible(2, 4), visible(0, 4, window=2)
    (10, 7, 7)
    """
    if window is None or window >= stop:
        return _triangle(stop) - _triangle(start)
    if start >= window:
        return window * max(0, stop - start)
    return visible(start, window) + window * (stop - window)


def _triangle(n: int) -> int:
    return n * (n + 1) // 2


def _tokens(runs: Sequence[Run]) -> int:
    return sum(stop - start for start, stop in runs)


# ---------------------------------------------------------------- linear maps


@dataclass(frozen=True)
class _Experts:
    """A mixture of experts: how many there are, how many of them a token passes, and the width of what they read."""

    count: int
    active: int
    hidden: int

    def passed(self, parameters: int) -> int:
        """Of the parameters of all experts, those of the active ones."""
        return parameters // self.count * self.active

    @classmethod
    def of(cls, config: Any) -> _Experts | None:
        count = _first(config, "num_experts", "num_local_experts", "n_routed_experts")
        active = _first(config, "num_experts_per_tok", "num_experts_per_token", "top_k_experts")
        return cls(count, active or count, int(config.hidden_size)) if count else None


def _first(config: Any, *names: str) -> int:
    return next((int(value) for name in names if (value := getattr(config, name, None))), 0)


def _summed(module: nn.Module, experts: _Experts | None) -> Maps:
    counts: Counter[bool] = Counter()
    for learns, count in _maps(module, experts):
        counts[learns] += count
    return Maps(trained=counts[True], frozen=counts[False])


def _maps(module: nn.Module, experts: _Experts | None, of_experts: bool = False) -> Iterator[tuple[bool, int]]:
    """(whether it learns, parameters that one token passes) of every linear map under a module.

    A linear map is a linear layer, a convolution over the sequence, a stack of experts [experts, ., .], of which a
    token passes the active ones, or the router [experts, hidden] that chooses them. Embeddings are looked up, and
    norms multiply without adding up. `of_experts`: the linear layers are all experts' in one.
    """
    base = getattr(module, "base_layer", None)  # of an adapter
    if base is not None:
        yield from _maps(base, experts)
        if not (module.disable_adapters or module.merged):
            stacked = experts is not None and getattr(module, "num_experts", 1) == experts.count
            for child in module.children():
                if child is not base:
                    yield from _maps(child, experts, stacked)
        return
    for name, weight in module.named_parameters(recurse=False):
        count = weight.numel()
        if isinstance(module, (nn.Linear, Conv1D, nn.Conv1d)):
            if name == "weight":
                yield weight.requires_grad, experts.passed(count) if of_experts and experts else count
        elif experts is not None and weight.dim() == 3 and weight.shape[0] == experts.count:
            yield weight.requires_grad, experts.passed(count)
        elif experts is not None and weight.shape == (experts.count, experts.hidden):
            yield weight.requires_grad, count
    for child in module.children():
        yield from _maps(child, experts, of_experts)


# ---------------------------------------------------------------- attention


def attention_shapes(model: LanguageModel) -> tuple[AttentionShape, ...]:
    """Every softmax attention of a model: seen in a forward pass of one token, or read from the configuration where
    attention does not go through our interface."""
    if not model.sharing:
        return tuple(_configured(model.config))
    seen = _Seen()
    zero = torch.zeros(1, dtype=torch.long, device=model.device)
    with torch.no_grad():
        model.hidden(zero, zero, seen)
    return tuple(seen.shapes)


class _Seen:
    """A layout that notes the shape of every attention and computes none."""

    def __init__(self) -> None:
        self.shapes: list[AttentionShape] = []

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
        heads, size = query.shape[1], value.shape[-1]
        self.shapes.append(AttentionShape(heads, query.shape[-1], size, window))
        return value.new_zeros(1, query.shape[2], heads, size)


def _configured(config: Any) -> Iterator[AttentionShape]:
    """The layers that the configuration calls attention; recurrent ones (linear attention, state spaces) have none."""
    heads, window = getattr(config, "num_attention_heads", None), getattr(config, "sliding_window", None)
    if not heads:
        return
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    all_alike = ["sliding_attention" if window else "full_attention"] * int(config.num_hidden_layers)
    for kind in getattr(config, "layer_types", None) or all_alike:
        if kind in ("full_attention", "sliding_attention", "attention", "hybrid"):
            yield AttentionShape(heads, size, size, window if kind == "sliding_attention" else None)
