"""Scoring without gradient: a model's log-probabilities and entropies of tokens that were sampled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from burnish.errors import InputError
from burnish.learning.collect import StepTokens, collect
from burnish.learning.packing import MicroBatch, pack
from burnish.learning.spec import LearnerSpec
from burnish.learning.statistics import projections, token_statistics
from burnish.ledger import Ledger
from burnish.losses.build import SAMPLER_LOGPROB
from burnish.losses.term import Need, Term, TermValues, TokenView
from burnish.models.flops import ModelFlops
from burnish.models.language_model import LanguageModel
from burnish.models.spec import HeadPath
from burnish.traces import Group, Span, Trace
from burnish.traces.signal_names import ABSENT, TOP_IDS


@dataclass(frozen=True)
class Scored:
    """Statistics of the M sampled tokens of some groups, flat, with where each token lies."""

    tokens: StepTokens
    values: dict[Need, npt.NDArray[np.float64]]
    """Statistic -> [M]."""

    @property
    def sampler_gap(self) -> npt.NDArray[np.float64]:
        """Sampling log-probability minus this model's, [M] (promise E5)."""
        return self.tokens.signals[SAMPLER_LOGPROB] - self.values["policy_logprob"]

    def write(self, signal: str, need: Need = "policy_logprob") -> None:
        """Write one statistic as a signal on the nodes; NaN on tokens that were not scored."""
        for tree in self.tokens.trees:
            for node, (offsets, flat) in tree.trained.items():
                if len(offsets):
                    values = self.values[need]
                    array = np.full((len(tree.trace.nodes[node]), *values.shape[1:]), np.nan)
                    array[offsets] = values[flat]
                    tree.trace.write(node, signal, np.maximum(array, ABSENT), axes=("top",) * (values.ndim - 1))


def _nothing(view: TokenView) -> TermValues:
    raise AssertionError("a scoring term is never evaluated")


def score(
    model: LanguageModel,
    groups: Sequence[Group],
    want: Sequence[Need] = ("policy_logprob",),
    layout: LearnerSpec | None = None,
    *,
    ledger: Ledger | None = None,
    role: str | None = None,
) -> Scored:
    """Score every sampled token of the counted members, under the distribution it was sampled from.

    Of `policy_top_logprobs` the result is [M, k], of the tokens that the signal `top_ids` names there.

    That is with its temperature and kept support, so that the numbers compare with the sampler's. Greedy tokens are
    scored at temperature 1. A `ledger` counts it under `role`, by default the model's name. Raises InputError when
    `want` is empty.
    """
    layout, ledger, role = layout or LearnerSpec(), ledger or Ledger(), role or model.name
    if not want:
        raise InputError("nothing to score: name at least one statistic")
    # a stream that is present exactly on sampled tokens, and no ratio: greedy tokens may be scored too
    wide: Need = "policy_top_logprobs"
    reads = (TOP_IDS,) if wide in want else ()
    term = Term("score", SAMPLER_LOGPROB, _nothing, frozenset(), reads)
    tokens = collect(groups, [term])
    # a score is wanted for its value: never the fused operation where that is rounded
    path: HeadPath = "chunked" if layout.head == "chunked" else "auto"
    shape = tokens.signals[TOP_IDS].shape if reads else (len(tokens),)
    values: dict[Need, npt.NDArray[np.float64]] = {
        name: np.full(shape if name == wide else (len(tokens),), np.nan) for name in want
    }
    batches = pack(
        tokens,
        layout.micro_batch_tokens,
        share=layout.share_prefixes and model.sharing,
        packing=layout.packing,
        padded=not model.sharing,
    )
    ledger.add(role, "scored_tokens", len(tokens))
    flops = ModelFlops.of(model)
    with torch.no_grad(), ledger.timed(role):
        for pieces in batches:
            batch = MicroBatch.lay_out(pieces, model.device)
            ledger.add(role, "flops", flops.forward(batch.runs, projections(batch, tokens, frozenset(want))))
            statistics = token_statistics(model, batch, tokens, frozenset(want), path)
            for name in want:
                values[name][batch.tokens.cpu().numpy()] = statistics[name].double().cpu().numpy()
    return Scored(tokens, values)


def score_top(
    model: LanguageModel,
    groups: Sequence[Group],
    k: int,
    signals: tuple[str, str],
    layout: LearnerSpec | None = None,
    *,
    temperature: float = 1.0,
    ledger: Ledger | None = None,
    role: str | None = None,
) -> float:
    """Write the k most probable tokens under the distribution each sampled token was drawn from, [T, k].

    `signals` are the names of ids and of log-probabilities; with a vocabulary of fewer than k tokens it is all of them.
    `temperature` multiplies that of the record, for a sampler that drew at another one than it says. Returns the mean
    mass that they cover.
    """
    layout, ledger, role = layout or LearnerSpec(), ledger or Ledger(), role or model.name
    tokens = collect(groups, [Term("score", SAMPLER_LOGPROB, _nothing, needs=frozenset())])
    k = min(k, model.vocab_size)
    ids, logprobs = np.zeros((len(tokens), k)), np.full((len(tokens), k), ABSENT)
    batches = pack(
        tokens, layout.micro_batch_tokens, share=layout.share_prefixes and model.sharing, packing=layout.packing,
        padded=not model.sharing,
    )  # fmt: skip
    ledger.add(role, "scored_tokens", len(tokens))
    flops = ModelFlops.of(model)
    with torch.no_grad(), ledger.timed(role), model.numerics():
        for pieces in batches:
            batch = MicroBatch.lay_out(pieces, model.device)
            ledger.add(role, "flops", flops.forward(batch.runs, len(batch.tokens)))
            flat = batch.tokens.cpu().numpy()
            heat = torch.from_numpy(tokens.temperature[flat] * temperature).to(model.device)
            found = model.head.top(batch.hidden(model), k, temperature=heat, support=batch.support(tokens))
            ids[flat], logprobs[flat] = (each.double().cpu().numpy() for each in found)
    logprobs = np.maximum(logprobs, ABSENT)
    for tree in tokens.trees:
        for node, (offsets, places) in tree.trained.items():
            for name, values in zip(signals, (ids, logprobs), strict=True):
                array = np.full((len(tree.trace.nodes[node]), k), np.nan)
                array[offsets] = values[places]
                tree.trace.write(node, name, array, axes=("top",))
    return float(np.exp(logprobs).sum(axis=1).mean()) if len(tokens) else 1.0


def whole(trace: Trace) -> Group:
    """A group of every path of a trace, for scoring traces that belong to none."""
    return Group(trace.id, [Span(trace, leaf) for leaf in trace.leaves()])
