"""Can this model share prefixes, and does the lean head compute its logits? Asked of the model, not of a list.

A fork of two short sequences runs through our attention and through the model's own. Prefixes are shared when every
layer went through ours, the log-probabilities agree, and a sibling's tokens reach no other sibling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from burnish.errors import InputError, RunError
from burnish.models.forest import Forest

if TYPE_CHECKING:
    from burnish.models.language_model import LanguageModel

TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3, torch.bfloat16: 0.25, torch.float16: 0.05}
"""Largest difference of log-probabilities between two right ways of computing them."""
_LEAK = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 0.02, torch.float16: 0.005}
"""The same between siblings of a mixture of experts, whose matrix shapes depend on the whole batch."""


@torch.no_grad()
def probe(model: LanguageModel) -> tuple[bool, str]:
    """Whether prefixes can be shared, and one line for the user.

    Raises InputError when the model transforms its logits in a way the lean head does not reproduce.
    """
    config = model.config
    window = getattr(config, "sliding_window", None) or 0
    length = min(max(5, min(window, 32) + 3), (model.context_length or 64) - 3)
    stem = torch.arange(length, device=model.device) * 7 % model.vocab_size
    tails = [torch.tensor(t, device=model.device) % model.vocab_size for t in ([3, 1, 4], [2, 7])]
    _check_finite(model)
    plain = model.hidden_rows([torch.cat([stem, tail]) for tail in tails])
    _check_head(model, torch.cat([stem, tails[0]]), plain[0])
    forest = Forest.build([stem, *tails], parents=[-1, 0, 0], device=model.device)
    other = Forest.build([stem, (tails[0] + 11) % model.vocab_size, tails[1]], parents=[-1, 0, 0], device=model.device)
    try:
        shared = model.hidden(forest.tokens, forest.positions, forest)
        swapped = model.hidden(other.tokens, other.positions, other)
    except (TypeError, ValueError, AttributeError, RuntimeError, RunError) as error:
        # models with other mixers reject the layout or its flat shape in ways of their own
        return False, f"plain padded attention: {str(error).splitlines()[0]}"
    reason = _why_not(model, forest, shared, swapped, plain)
    return reason is None, reason or f"prefix-shared attention ({model.num_layers} layers)"


def _why_not(model: LanguageModel, forest: Forest, shared: Tensor, swapped: Tensor, plain: list[Tensor]) -> str | None:
    config, stem = model.config, forest.slots[0].stop
    if len(forest.layers_seen) != model.num_layers:
        return (
            f"plain padded attention: only {len(forest.layers_seen)} of {model.num_layers} layers attend through "
            "softmax attention that can be shared (linear attention or a state space)"
        )
    if getattr(config, "attention_chunk_size", None) or (
        getattr(config, "sliding_window", None) and forest.windows_seen == {None}
    ):
        return "plain padded attention: the model's attention window is told to its mask alone"
    theirs = torch.cat([row[stem:] for row in plain])
    gap = _gap(model, shared[stem:], theirs)
    if not gap <= TOLERANCE[model.dtype]:
        return f"plain padded attention: sharing prefixes would move log-probabilities by {gap:.1e}"
    still = torch.cat([torch.arange(stem), torch.arange(forest.slots[2].start, forest.slots[2].stop)])
    leak = _gap(model, shared[still], swapped[still])
    if leak > (_LEAK[model.dtype] if _has_experts(config) else 0.0):
        return f"plain padded attention: a sample would change its siblings' log-probabilities by {leak:.1e}"
    return None


def _check_finite(model: LanguageModel) -> None:
    for name, parameter in model.network.named_parameters():
        if not torch.isfinite(parameter).all():
            raise InputError(f"weight {name} of model {model.name!r} holds NaN or infinity: the model is damaged")


def _gap(model: LanguageModel, ours: Tensor, theirs: Tensor) -> float:
    """Largest difference of log-probabilities over the whole vocabulary."""
    a, b = (torch.log_softmax(model.logits(hidden), dim=-1) for hidden in (ours, theirs))
    return float((a - b).abs().max())


def _has_experts(config: Any) -> bool:
    return any("expert" in key for key in vars(config))


def _check_head(model: LanguageModel, row: Tensor, hidden: Tensor) -> None:
    theirs = model.own_logits(row)
    ours = model.logits(hidden)
    gap = float((torch.log_softmax(theirs.to(ours.dtype), -1) - torch.log_softmax(ours, -1)).abs().max())
    if not gap <= TOLERANCE[model.dtype]:
        raise InputError(
            f"{model.kind} transforms its logits in a way the lean head does not reproduce (log-probabilities differ "
            f"by {gap:.1e}): training it would be wrong. Known transforms: bias, logit_scale, logits_scaling, "
            "final_logit_softcapping"
        )
