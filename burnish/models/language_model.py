"""A named causal language model: network, tokenizer, weight version, and how its attention is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from burnish.errors import InputError
from burnish.models import attention
from burnish.models.attention import AttentionLayout
from burnish.models.flops import AttentionShape, attention_shapes
from burnish.models.head import Head
from burnish.models.numerics import full_float64
from burnish.models.probe import probe


class LanguageModel:
    """A causal language model as the learner, the engine and the scorers see it.

    At construction two short sequences are run through our attention and through the model's own. When every layer
    went through ours and the log-probabilities agree, prefixes can be shared; otherwise (linear attention, state
    spaces) the plain padded path is used, and `path_in_use` says why. A logit transform that the lean head does not
    reproduce is refused with InputError.
    """

    def __init__(
        self,
        network: Any,
        tokenizer: Any = None,
        *,
        name: str = "policy",
        compute_dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        self.name = name
        self.version = 0
        self.tokenizer = tokenizer
        self.network = network if device is None else network.to(device)
        self.network.eval()  # dropout stays off: promise E1 would not hold with it
        self.compute_dtype = compute_dtype or self._causal.dtype
        self.head = Head.of(self._causal)
        self._own_attention = self._plain_implementation()
        attention.register()
        self.sharing, self.path_in_use = probe(self)

    # -- parts of the network ------------------------------------------------------------------------------------

    @property
    def _causal(self) -> Any:
        """The transformers model under any adapter."""
        get_base = getattr(self.network, "get_base_model", None)
        return get_base() if get_base is not None else self.network

    @property
    def backbone(self) -> Any:
        """The transformers model without its vocabulary head."""
        causal = self._causal
        return getattr(causal, causal.base_model_prefix)

    @property
    def config(self) -> Any:
        """The text part of the transformers configuration."""
        return self._causal.config.get_text_config()

    @cached_property
    def attention_shapes(self) -> tuple[AttentionShape, ...]:
        """The shape of every softmax attention, which its operations are counted by."""
        return attention_shapes(self)

    @property
    def num_layers(self) -> int:
        """Decoder layers."""
        return int(self.config.num_hidden_layers)

    @property
    def vocab_size(self) -> int:
        """Rows of the vocabulary projection."""
        return int(self.head.projection.weight.shape[0])  # type: ignore[union-attr, arg-type]

    @property
    def context_length(self) -> int | None:
        """Most tokens a path may have, or None when the configuration sets no limit.

        Some rotary embeddings (longrope, dynamic) change every position's frequencies once a batch holds a longer
        path; the gradient would depend on what shares the batch. Such a model is held to its original length.
        """
        return context_limit(self.config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.network.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return self._causal.dtype

    @property
    def kind(self) -> str:
        """Class of the transformers model."""
        return type(self._causal).__name__

    @property
    def adapter(self) -> bool:
        """Whether a peft adapter is attached."""
        return hasattr(self.network, "peft_config")

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """Run with the adapter off: the base model, which is the reference of an adapter run."""
        if not self.adapter:
            raise InputError(f"model {self.name!r} has no adapter to switch off")
        with self.network.disable_adapter():
            yield

    def numerics(self) -> AbstractContextManager[Any]:
        """Context for forward and backward passes: in a float64 model nothing is rounded to float32 on the way."""
        return full_float64() if self._causal.dtype == torch.float64 else nullcontext()

    # -- forward passes ------------------------------------------------------------------------------------------

    def check_length(self, length: int) -> None:
        """Raise InputError when a path of so many tokens does not fit the context."""
        if self.context_length is not None and length > self.context_length:
            raise InputError(
                f"a path of {length} tokens does not fit the context of model {self.name!r}, {self.context_length}: "
                "shorten the prompts or the answers"
            )

    def hidden(self, tokens: Tensor, positions: Tensor, layout: AttentionLayout) -> Tensor:
        """Last hidden states [N, H] of tokens [N] at positions [N], attending as `layout` says."""
        self._use(attention.NAME)
        with self.numerics():
            output = self.backbone(
                input_ids=tokens[None], position_ids=positions[None], use_cache=False, burnish_layout=layout
            )
        return output.last_hidden_state[0]

    def hidden_rows(self, rows: Sequence[Tensor]) -> list[Tensor]:
        """Last hidden states [T_i, H] of separate sequences [T_i]: the padded path, with the model's own attention."""
        self._use(self._own_attention)
        padded = pad_sequence(list(rows), batch_first=True)
        lengths = torch.tensor([len(row) for row in rows], device=padded.device)
        steps = torch.arange(padded.shape[1], device=padded.device)
        mask = steps[None] < lengths[:, None]
        positions = steps[None].expand_as(padded)
        with self.numerics():
            output = self.backbone(
                input_ids=padded, attention_mask=mask.long(), **self._positions(positions), use_cache=False
            )
        return [output.last_hidden_state[i, : len(row)] for i, row in enumerate(rows)]

    @torch.no_grad()
    def own_logits(self, row: Tensor) -> Tensor:
        """Logits [T, V] of one sequence [T] from the unmodified model, its own head included."""
        self._use(self._own_attention)
        positions = self._positions(torch.arange(len(row), device=row.device)[None])
        with self.numerics():
            return self._causal(input_ids=row[None], **positions, use_cache=False).logits[0]

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, V] of hidden states [n, H], as the model itself would give them."""
        return self.head.logits(hidden)

    def _positions(self, positions: Tensor) -> dict[str, Tensor]:
        recurrent = getattr(self.config, "model_type", "") in ("mamba", "mamba2", "falcon_mamba")
        return {} if recurrent else {"position_ids": positions}

    def _plain_implementation(self) -> str:
        """The model's own attention; SDPA would drop a soft cap on the scores, so such a model runs eagerly."""
        if getattr(self.config, "attn_logit_softcapping", None):
            return "eager"
        return "sdpa" if getattr(self._causal, "_supports_sdpa", False) else "eager"

    def _use(self, implementation: str) -> None:
        if self._causal.config._attn_implementation != implementation:
            self._causal.set_attn_implementation(implementation)


def context_limit(config: Any) -> int | None:
    """`LanguageModel.context_length`, by a transformers configuration of the text model alone."""
    limit = getattr(config, "max_position_embeddings", None)
    rope = getattr(config, "rope_parameters", None)
    if limit is not None and _length_dependent(rope):
        original = getattr(config, "original_max_position_embeddings", None) or (
            rope.get("original_max_position_embeddings") if isinstance(rope, dict) else None
        )
        return min(limit, original or limit)
    return limit


def _length_dependent(rope: Any) -> bool:
    """Whether rotary frequencies depend on the longest position of a forward call."""
    if not isinstance(rope, dict):
        return False
    if rope.get("rope_type") in ("longrope", "dynamic"):
        return True
    return any(_length_dependent(value) for value in rope.values())
