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

from burnish.errors import InputError
from burnish.models.devices import chunk_elements, on_gpu
from burnish.models.fused import fused_logprobs, obstacle, precise
from burnish.models.spec import HeadPath


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

    @property
    def _device(self) -> torch.device:
        return next(self.projection.parameters()).device

    @property
    def plain(self) -> bool:
        """Whether the logits are a number times hidden @ weight.T, and nothing else."""
        return type(self.projection) is nn.Linear and self.projection.bias is None and not self.softcap

    @property
    def chunk_rows(self) -> int:
        """Positions that are projected at a time."""
        return max(1, chunk_elements(self._device) // max(1, _rows_of(self.projection)))

    def fuses(
        self,
        path: HeadPath = "auto",
        *,
        temperature: bool = False,
        support: bool = False,
        entropy: bool = False,
        rounded: bool = False,
    ) -> bool:
        """Whether token statistics come from torch's fused operation (models/fused.py) and not from our own chunk.

        `temperature` (other than 1), `support` and `entropy`: whether they are asked for. `rounded`: whether
        log-probabilities in the compute type will do, as for a cross-entropy, whose gradient does not depend on them.
        "auto" takes it where no digit is lost, and on a GPU also where `rounded` allows. Raises InputError where
        "fused" asks for what cannot be had.
        """
        if path == "chunked":
            return False
        reason = obstacle(self.projection, temperature or self.scale != 1.0, self.softcap)
        if reason is None and (support or entropy):
            reason = f"it gives no {'entropy' if entropy else 'softmax over a kept support'}"
        if reason is None and not (precise(self.dtype) or rounded):
            reason = "its log-probabilities are rounded to bfloat16, which is too coarse for ratios"
        if path == "fused" and reason is not None:
            raise InputError(f"learner.head: fused is not possible, since {reason}; write auto or chunked")
        return reason is None and (path == "fused" or precise(self.dtype) or on_gpu(self._device))

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
        path: HeadPath = "auto",
        rounded: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Log-probability [M] of `targets` [M] at hidden states [M, H], and the entropy [M] in nats when asked for.

        `temperature` [M] divides the logits and `support` restricts the softmax, so that the result is the
        log-probability under the distribution that was really sampled from. Differentiable in the hidden states and
        in the head's weights. `path` and `rounded`: see `fuses`.
        """
        count = hidden.shape[0]
        step = chunk or self.chunk_rows
        asked = {"temperature": temperature is not None, "support": support is not None, "entropy": entropy}
        if count and self.fuses(path, **asked, rounded=rounded):
            hidden = hidden.to(self.dtype)
            scale = self.scale if temperature is None else (self.scale / temperature)[:, None].to(hidden.dtype)
            return fused_logprobs(self.projection, hidden, targets, scale, step), None  # type: ignore[arg-type]
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

    def gathered(
        self, hidden: Tensor, ids: Tensor, *, temperature: Tensor | None = None, support: KeptSupport | None = None
    ) -> Tensor:
        """Log-probabilities [M, k] of `ids` [M, k] at hidden states [M, H]; see `token_statistics`."""
        parts = []
        for start in range(0, hidden.shape[0], self.chunk_rows):
            here = slice(start, start + self.chunk_rows)
            cut = None if support is None else support.slice(start, start + self.chunk_rows)
            part = (hidden[here], ids[here], None if temperature is None else temperature[here], cut)
            chunk = checkpoint(self._picked, *part, use_reentrant=False) if torch.is_grad_enabled() else None
            parts.append(self._picked(*part) if chunk is None else chunk)
        return torch.cat(parts) if parts else hidden.new_zeros(ids.shape)

    def _picked(self, hidden: Tensor, ids: Tensor, temperature: Tensor | None, support: KeptSupport | None) -> Tensor:
        logits = self._drawn_from(hidden, temperature, support)
        return logits.gather(-1, ids) - torch.logsumexp(logits, dim=-1, keepdim=True)

    @torch.no_grad()
    def top(
        self, hidden: Tensor, k: int, *, temperature: Tensor | None = None, support: KeptSupport | None = None
    ) -> tuple[Tensor, Tensor]:
        """Ids and log-probabilities [M, k] of the most probable tokens at hidden states [M, H]; -inf where a kept
        support has fewer."""
        ids, logprobs = [], []
        for start in range(0, hidden.shape[0], self.chunk_rows):
            here = slice(start, start + self.chunk_rows)
            cut = None if support is None else support.slice(start, start + self.chunk_rows)
            logits = self._drawn_from(hidden[here], None if temperature is None else temperature[here], cut)
            best = torch.topk(torch.log_softmax(logits, dim=-1), k, dim=-1)
            ids.append(best.indices)
            logprobs.append(best.values)
        return torch.cat(ids), torch.cat(logprobs)

    def _drawn_from(self, hidden: Tensor, temperature: Tensor | None, support: KeptSupport | None) -> Tensor:
        """Logits [m, V] of the distribution that was sampled from."""
        logits = self.logits(hidden)
        if temperature is not None:
            logits = logits / temperature[:, None].to(logits.dtype)
        return logits if support is None else support.restrict(logits)

    def _chunk(
        self, hidden: Tensor, targets: Tensor, temperature: Tensor | None, support: KeptSupport | None, entropy: bool
    ) -> tuple[Tensor, Tensor | None]:
        logits = self._drawn_from(hidden, temperature, support)
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
