"""Lean heads: from hidden states to log-probabilities without ever holding tokens x vocabulary.

The projection to the vocabulary runs in chunks of positions and is computed again in the backward pass, so the peak
is one chunk of logits however long the batch is. Whatever the model does to its logits (soft cap, scale, bias) is
reproduced here and checked against the model itself when a LanguageModel is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 1 << 24
"""Logits held at once: 64 MiB in float32."""


@dataclass(frozen=True)
class KeptSupport:
    """Ragged sets of token ids that sampling kept, for M positions: the softmax is taken over them alone.

    `rows` [K] and `ids` [K] list the kept (position, token id) pairs. A position without a pair keeps the whole
    vocabulary.
    """

    rows: Tensor
    ids: Tensor

    def slice(self, start: int, stop: int) -> KeptSupport:
        """The pairs of positions start:stop, renumbered from 0."""
        inside = (self.rows >= start) & (self.rows < stop)
        return KeptSupport(self.rows[inside] - start, self.ids[inside])

    def restrict(self, logits: Tensor) -> Tensor:
        """Logits [m, V] with -inf outside the kept sets."""
        if not len(self.rows):
            return logits
        cut = torch.zeros(logits.shape, dtype=torch.bool, device=logits.device)
        cut[self.rows.unique()] = True
        cut[self.rows, self.ids] = False
        return logits.masked_fill(cut, -torch.inf)


class Head:
    """The map hidden state -> logits of one causal language model.

    logits = scale * (hidden @ weight.T + bias), then softcap * tanh(logits / softcap) where the model has one
    (Gemma 2). `scale` is Cohere's multiplier or the inverse of Granite's divisor.
    """

    def __init__(self, projection: nn.Module, *, scale: float = 1.0, softcap: float | None = None) -> None:
        self.projection = projection
        self.scale = scale
        self.softcap = softcap

    @classmethod
    def of(cls, network: Any) -> Head:
        """Read the head of a transformers model: its output embeddings and the transform its config names."""
        config = network.config.get_text_config()
        scale = float(getattr(config, "logit_scale", None) or 1.0)
        scale /= float(getattr(config, "logits_scaling", None) or 1.0)
        return cls(
            network.get_output_embeddings(), scale=scale, softcap=getattr(config, "final_logit_softcapping", None)
        )

    @property
    def dtype(self) -> torch.dtype:
        """The type the projection computes in; some backbones (Mamba) hand over float32 whatever it is."""
        return next(self.projection.parameters()).dtype

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [n, V] of hidden states [n, H], in float32 (float64 for a float64 model)."""
        logits = self.projection(hidden.to(self.dtype))
        logits = logits.double() if logits.dtype == torch.float64 else logits.float()
        if self.scale != 1.0:
            logits = logits * self.scale
        if self.softcap:
            logits = self.softcap * torch.tanh(logits / self.softcap)
        return logits

    def token_statistics(
        self,
        hidden: Tensor,
        targets: Tensor,
        *,
        temperature: Tensor | None = None,
        support: KeptSupport | None = None,
        entropy: bool = False,
        chunk: int | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probability [M] of `targets` [M] at hidden states [M, H], and the entropy [M] in nats when asked for.

        `temperature` [M] divides the logits and `support` restricts the softmax, so that the result is the
        log-probability under the distribution that was really sampled from. Differentiable in the hidden states and
        in the head's weights.
        """
        count = hidden.shape[0]
        vocabulary = _rows_of(self.projection)
        step = chunk or max(1, CHUNK_ELEMENTS // max(1, vocabulary))
        logprobs, entropies = [], []
        for start in range(0, count, step):
            stop = min(count, start + step)
            part = (
                hidden[start:stop],
                targets[start:stop],
                None if temperature is None else temperature[start:stop],
                None if support is None else support.slice(start, stop),
                entropy,
            )
            if torch.is_grad_enabled():
                logprob, ent = checkpoint(self._chunk, *part, use_reentrant=False)
            else:
                logprob, ent = self._chunk(*part)
            logprobs.append(logprob)
            entropies.append(ent)
        if not logprobs:
            empty = hidden.new_zeros(0, dtype=torch.float64 if hidden.dtype == torch.float64 else torch.float32)
            return empty, empty if entropy else None
        return torch.cat(logprobs), torch.cat(entropies) if entropy else None

    def _chunk(
        self, hidden: Tensor, targets: Tensor, temperature: Tensor | None, support: KeptSupport | None, entropy: bool
    ) -> tuple[Tensor, Tensor | None]:
        logits = self.logits(hidden)
        if temperature is not None:
            logits = logits / temperature[:, None].to(logits.dtype)
        if support is not None:
            logits = support.restrict(logits)
        norm = torch.logsumexp(logits, dim=-1)
        logprob = logits.gather(-1, targets[:, None]).squeeze(-1) - norm
        if not entropy:
            return logprob, None
        probs = torch.softmax(logits, dim=-1)
        # 0 * -inf outside the kept support must count as 0, in the value and in the gradient
        finite = torch.where(torch.isneginf(logits), torch.zeros_like(logits), logits)
        return logprob, norm - (probs * finite).sum(-1)


def _rows_of(projection: nn.Module) -> int:
    weight = getattr(projection, "weight", None)
    return int(weight.shape[0]) if isinstance(weight, Tensor) else int(getattr(projection, "out_features", 1))
