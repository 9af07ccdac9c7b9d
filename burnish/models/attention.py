"""Our own attention inside unmodified Hugging Face models.

transformers lets a named attention function be registered; every model then calls it with its rotated queries and
keys and with whatever keyword arguments the caller passed. A forward call therefore carries a *layout* (which keys a
query may see, and where the keys live), and the learner's forests and the engine's caches are two kinds of layout.
"""

from __future__ import annotations

from typing import Any, Protocol

from torch import Tensor, nn
from transformers import AttentionInterface

from burnish.errors import RunError

NAME = "burnish"
"""The name under which the attention function is registered with transformers."""

_IGNORED = frozenset({
    "attention_mask", "dropout", "position_ids", "is_causal", "use_cache", "cache_position", "output_attentions",
    "output_hidden_states", "output_router_logits", "return_dict", "position_embeddings", "past_key_values",
    "position_bias",
})  # fmt: skip
"""Keyword arguments that say nothing a layout does not already know."""


class AttentionLayout(Protocol):
    """Which keys each query of one forward call attends to."""

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
        """Attention of one layer.

        query [1, heads, N, D] and key, value [1, kv_heads, N, D] come after the rotary embedding and before any
        repetition for grouped queries; the answer is [1, N, heads, D]. A query at position p with a `window` w sees
        keys at positions above p - w; `softcap` c replaces scores s by c * tanh(s / c).
        """
        ...


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    burnish_layout: AttentionLayout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The registered attention function: hands the call to the layout that travels with it.

    Raises RunError when no layout came along or when the model asks for something the layouts do not reproduce
    (attention sinks, a position bias), so that nothing is silently computed otherwise.
    """
    if burnish_layout is None:
        raise RunError("a forward call reached Burnish's attention without a layout: call LanguageModel.hidden")
    unknown = sorted(k for k, v in kwargs.items() if v is not None and k not in _IGNORED)
    if unknown or kwargs.get("position_bias") is not None:
        raise RunError(f"this model passes {unknown or ['position_bias']} to attention, which no layout reproduces")
    layer = getattr(module, "layer_idx", None)
    if layer is None:
        raise RunError(f"{type(module).__name__} has no layer index")
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    output = burnish_layout.attend(
        layer, query, key, value, scaling=scale, window=sliding_window, softcap=softcap or None
    )
    return output, None


def register() -> None:
    """Make the attention function known to transformers. Calling it again changes nothing."""
    AttentionInterface.register(NAME, attend)
