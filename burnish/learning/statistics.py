"""Token statistics of a micro-batch: what terms and scorers need, from one forward pass of the backbone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from burnish.learning.collect import StepTokens
from burnish.learning.packing import MicroBatch
from burnish.losses.term import Need
from burnish.models.head_loss import head_loss
from burnish.models.language_model import LanguageModel
from burnish.models.spec import HeadPath
from burnish.traces.signal_names import TOP_IDS

_POLICY = frozenset[Need]({"policy_logprob", "policy_entropy"})

Statistics = dict[str, Tensor]
"""Statistic name -> values [m] at a micro-batch's trained tokens."""

Evaluate = Callable[[Tensor, Statistics], Tensor]
"""The part of a loss that lies on flat tokens [m], from their statistics."""


def token_statistics(
    model: LanguageModel,
    batch: MicroBatch,
    step: StepTokens,
    needs: frozenset[Need],
    path: HeadPath = "auto",
    *,
    rounded: bool = False,
) -> Statistics:
    """The statistics named by `needs` at the trained tokens of `batch`, differentiable when gradients are on.

    The policy's statistics are taken under the sampler's distribution (temperature, kept support). Where no token of
    the batch was sampled otherwise than from the model's own distribution, one projection serves both. `path` and
    `rounded`: how the head computes them (Head.fuses).
    """
    hidden = batch.hidden(model)
    policy = needs & _POLICY
    chosen = batch.tokens.cpu().numpy()
    result: Statistics = {}
    plain_serves = _plain_serves(batch, step)
    if "logprob" in needs or (policy and plain_serves):
        logprob, entropy = model.head.token_statistics(
            hidden, batch.targets, entropy="policy_entropy" in needs and plain_serves, path=path,
            rounded=rounded,
        )  # fmt: skip
        result["logprob"] = logprob
        if policy and plain_serves:
            result["policy_logprob"] = logprob
            if entropy is not None:
                result["policy_entropy"] = entropy
    if policy and not plain_serves:
        temperature = torch.from_numpy(step.temperature[chosen]).to(hidden.device)
        logprob, entropy = model.head.token_statistics(
            hidden, batch.targets, temperature=temperature, support=batch.support(step),
            entropy="policy_entropy" in needs, path=path, rounded=rounded,
        )  # fmt: skip
        result["policy_logprob"] = logprob
        if entropy is not None:
            result["policy_entropy"] = entropy
    if "policy_top_logprobs" in needs:
        ids = torch.from_numpy(step.signals[TOP_IDS][chosen].astype("int64")).to(hidden.device)
        temperature = None if plain_serves else torch.from_numpy(step.temperature[chosen]).to(hidden.device)
        support = None if plain_serves else batch.support(step)
        result["policy_top_logprobs"] = model.head.gathered(hidden, ids, temperature=temperature, support=support)
    return {name: result[name] for name in needs}


def loss_in_head(
    model: LanguageModel, batch: MicroBatch, step: StepTokens, needs: frozenset[Need], evaluate: Evaluate
) -> Tensor | None:
    """The loss of a micro-batch by `head_loss`, for terms of token scope; None where it cannot be had so.

    `evaluate` is given the flat tokens [m] of a chunk and their statistics. It cannot be had where the head does more
    than project, where a token's softmax is over a kept support, where entropies are asked for, or where the model's
    own distribution and another one are.
    """
    plain = _plain_serves(batch, step)
    one = needs == {"logprob"} or (needs <= {"policy_logprob", "logprob"} and (plain or needs == {"policy_logprob"}))
    if not one or not model.head.plain or (not plain and batch.support(step) is not None):
        return None
    scale: Tensor | float = model.head.scale
    if not plain and needs == {"policy_logprob"}:
        temperature = torch.from_numpy(step.temperature[batch.tokens.cpu().numpy()]).to(batch.tokens.device)
        scale = scale / temperature

    def part(start: int, stop: int, logprob: Tensor) -> Tensor:
        return evaluate(batch.tokens[start:stop], dict.fromkeys(needs, logprob))

    hidden, rows = batch.hidden(model), model.head.chunk_rows
    return head_loss(model.head.projection, hidden, batch.targets, scale, rows, part)  # type: ignore[arg-type]


def projections(batch: MicroBatch, step: StepTokens, needs: frozenset[Need]) -> int:
    """Vocabulary projections that `token_statistics` makes: one a trained token and distribution."""
    policy = bool(needs & _POLICY)
    distributions = 1 if not policy or _plain_serves(batch, step) else policy + ("logprob" in needs)
    return (distributions + ("policy_top_logprobs" in needs)) * len(batch.tokens)


def _plain_serves(batch: MicroBatch, step: StepTokens) -> bool:
    """Whether every token of the batch was sampled from the model's own distribution, or from none."""
    return not step.transformed[batch.tokens.cpu().numpy()].any()
