"""A named causal language model: network, tokenizer, weight version, and how its attention is run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from burnish.errors import InputError, RunError
from burnish.models import attention
from burnish.models.attention import AttentionLayout
from burnish.models.forest import Forest
from burnish.models.head import Head
from burnish.models.numerics import full_float64

_PROBE_TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3, torch.bfloat16: 0.25, torch.float16: 0.05}


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
        self.sharing, self.path_in_use = self._probe()

    # -- parts of the network ------------------------------------------------------------------------------------

    @property
    def _causal(self) -> Any:
        """The transformers model under any adapter."""
        get_base = getattr(self.network, "get_base_model", None)
        return get_base() if get_base is not None else self.network

    @property
    def _backbone(self) -> Any:
        causal = self._causal
        return getattr(causal, causal.base_model_prefix)

    @property
    def config(self) -> Any:
        """The text part of the transformers configuration."""
        return self._causal.config.get_text_config()

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
        """Most tokens a path may have, or None when the configuration sets no limit."""
        return getattr(self.config, "max_position_embeddings", None)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.network.parameters()).device

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

    def hidden(self, tokens: Tensor, positions: Tensor, layout: AttentionLayout) -> Tensor:
        """Last hidden states [N, H] of tokens [N] at positions [N], attending as `layout` says."""
        self._use(attention.NAME)
        with self.numerics():
            output = self._backbone(
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
            output = self._backbone(
                input_ids=padded, attention_mask=mask.long(), **self._positions(positions), use_cache=False
            )
        return [output.last_hidden_state[i, : len(row)] for i, row in enumerate(rows)]

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

    # -- probing -------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _probe(self) -> tuple[bool, str]:
        vocabulary = self.vocab_size
        window = getattr(self.config, "sliding_window", None) or 0
        stem_length = min(max(5, min(window, 32) + 3), (self.context_length or 64) - 3)
        stem = torch.arange(stem_length, device=self.device) * 7 % vocabulary
        tails = [torch.tensor(t, device=self.device) % vocabulary for t in ([3, 1, 4], [2, 7])]
        rows = [torch.cat([stem, tail]) for tail in tails]
        plain = self.hidden_rows(rows)
        self._check_head(rows[0], plain[0])
        forest = Forest.build([stem, *tails], parents=[-1, 0, 0], device=self.device)
        try:
            shared = self.hidden(forest.tokens, forest.positions, forest)
        except (TypeError, ValueError, AttributeError, RuntimeError, RunError) as error:
            # models with other mixers reject the layout or its flat shape in ways of their own
            return False, f"plain padded attention: {str(error).splitlines()[0]}"
        if len(forest.layers_seen) != self.num_layers:
            return False, (
                f"plain padded attention: only {len(forest.layers_seen)} of {self.num_layers} layers attend through "
                "softmax attention that can be shared (linear attention or a state space)"
            )
        return self._compare(forest, shared, plain, len(stem))

    def _compare(self, forest: Forest, shared: Tensor, plain: list[Tensor], stem: int) -> tuple[bool, str]:
        ours = torch.cat([shared[s.start : s.stop] for s in forest.slots[1:]])
        theirs = torch.cat([row[stem:] for row in plain])
        gap = (torch.log_softmax(self.logits(ours), -1) - torch.log_softmax(self.logits(theirs), -1)).abs().max()
        tolerance = _PROBE_TOLERANCE[self._causal.dtype]
        if not float(gap) <= tolerance:
            return False, f"plain padded attention: sharing prefixes would move log-probabilities by {float(gap):.1e}"
        return True, f"prefix-shared attention ({self.num_layers} layers)"

    def _check_head(self, row: Tensor, hidden: Tensor) -> None:
        """Refuse a model whose logits are not what the lean head computes."""
        self._use(self._own_attention)
        extra = self._positions(torch.arange(len(row), device=row.device)[None])
        with self.numerics():
            theirs = self._causal(input_ids=row[None], **extra, use_cache=False).logits[0]
        ours = self.logits(hidden)
        gap = (torch.log_softmax(theirs.to(ours.dtype), -1) - torch.log_softmax(ours, -1)).abs().max()
        if not float(gap) <= _PROBE_TOLERANCE[self._causal.dtype]:
            kind = type(self._causal).__name__
            raise InputError(
                f"{kind} transforms its logits in a way the lean head does not reproduce (log-probabilities differ by "
                f"{float(gap):.1e}): training it would be wrong. Known transforms: bias, logit_scale, logits_scaling, "
                "final_logit_softcapping"
            )
