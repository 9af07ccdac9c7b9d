"""Policy-gradient terms: a level of ratio, a surrogate, and the choices among a step's tokens, put together."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from burnish.errors import InputError
from burnish.losses import centering, covariance, surrogates
from burnish.losses.ratios import LogRatio, Pairs, capped, log_ratio
from burnish.losses.spec import (
    SURROGATE_LEVELS,
    CovariancePenaltySpec,
    DriftSpec,
    PolicyGradientSpec,
    ScoreCenteringSpec,
)
from burnish.losses.term import Need, Scope, Term, TermValues, TokenView
from burnish.traces.signal_names import OLD_LOGPROB, SAMPLER_LOGPROB, SEGMENT, TOP_IDS, TOP_LOGPROBS

Evaluate = Callable[[LogRatio, Tensor, Tensor, Tensor], surrogates.Surrogate]
"""A surrogate with its settings: of log-ratio, advantage, log pi and log pi_old, [K] each."""


def old_signal(old: str) -> str:
    """The signal that holds the ratio's denominator."""
    return SAMPLER_LOGPROB if old == "sampler" else OLD_LOGPROB


def surrogate_of(spec: PolicyGradientSpec) -> Evaluate:
    """The surrogate that a spec declares, with its settings filled in."""
    low, high = spec.clip_low, spec.clip_high
    table: dict[str, Evaluate] = {
        "ppo": lambda r, a, p, o: surrogates.ppo(r, a, low, high, spec.dual_clip),
        "cispo": lambda r, a, p, o: surrogates.cispo(r, a, p, low, high),
        "reinforce": lambda r, a, p, o: surrogates.reinforce(a, p),
        "sapo": lambda r, a, p, o: surrogates.sapo(r, a, spec.soft_positive, spec.soft_negative),
        "gmpo": lambda r, a, p, o: surrogates.plain(r, a),
        "log_band": lambda r, a, p, o: surrogates.log_band(r, a, low, high),
        "hard_band": lambda r, a, p, o: surrogates.hard_band(r, a, low, high),
        "squared": lambda r, a, p, o: surrogates.squared(r, a, p, spec.tau),
        "divergence_mask": lambda r, a, p, o: surrogates.divergence_mask(r, a, p, o, spec.threshold, spec.divergence),
    }
    return table[spec.surrogate]


def check(spec: PolicyGradientSpec) -> None:
    """Raise InputError for a spec whose parts do not go together."""
    levels = SURROGATE_LEVELS.get(spec.surrogate)
    if levels is not None and spec.ratio not in levels:
        raise InputError(f"surrogate {spec.surrogate!r} takes a ratio of {' or '.join(sorted(levels))}: set ratio")
    if spec.correction is not None and spec.old == "sampler":
        raise InputError(
            "a correction on top of old: sampler would count the behaviour policy twice: the ratio is already to it. "
            "Set old: learner, or remove the correction"
        )
    if spec.covariance is not None and spec.covariance.rule != "clip":
        raise InputError("the policy gradient knows rule clip of covariance; rule kl is a term of its own")


def scope_of(spec: PolicyGradientSpec) -> Scope:
    """How far a token's value looks."""
    if spec.covariance is not None or spec.entropy_share < 1:
        return "step"
    return "token" if spec.ratio == "token" else "sequence"


def policy_gradient(spec: PolicyGradientSpec) -> Term:
    """The term that a spec declares. Raises InputError for parts that do not go together."""
    check(spec)
    old_name, evaluate = old_signal(spec.old), surrogate_of(spec)

    def values(view: TokenView) -> TermValues:
        logprob, old, advantage = view["policy_logprob"], view[old_name], view[spec.stream]
        loss, off, distance = _surrogate(spec, evaluate, view, logprob, old, advantage)
        for chosen in _left_out(spec, view, logprob, advantage):
            loss, off = torch.where(chosen, torch.zeros_like(loss), loss), torch.where(chosen, 1.0, off)
        shown = {
            "clipped_share": off.to(loss.dtype),
            "ratio_distance": distance,
            "sampler_gap": (logprob.detach() - view[SAMPLER_LOGPROB]).abs(),
        }
        if spec.old == "learner":
            shown |= _mismatch(view)
        if spec.correction is not None:
            weight = view[spec.correction]
            loss = loss * weight
            shown |= {
                "correction": weight,
                "correction_square": weight**2,
                "correction_dropped": (weight == 0).to(weight.dtype),
            }
        return TermValues(loss, shown)

    reads = [old_name, SAMPLER_LOGPROB]
    reads += [SEGMENT] if spec.ratio == "segment" else []
    reads += [spec.correction] if spec.correction is not None else []
    needs: set[Need] = {"policy_logprob"}
    if spec.entropy_share < 1:
        needs.add("policy_entropy")
    return _term("policy_gradient", spec, values, needs, reads, scope_of(spec))


def _surrogate(
    spec: PolicyGradientSpec, evaluate: Evaluate, view: TokenView, logprob: Tensor, old: Tensor, advantage: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Values, the share of each token without gradient, and how far its ratio is from 1, [M] each."""
    gap, held = logprob - old, None
    if spec.surrogate == "gmpo":
        gap, held = surrogates.one_sided(gap, advantage, spec.clip_low, spec.clip_high)
    if spec.ratio == "token":
        ratio = LogRatio(gap, torch.ones_like(gap))
        loss, off = evaluate(ratio, advantage, logprob, old)
        return loss, off.to(loss.dtype), (capped(gap.detach()) - 1).abs()
    pairs = Pairs.of(view.incidence, logprob)
    ratio = log_ratio(gap, spec.ratio, pairs, view[SEGMENT] if spec.ratio == "segment" else None)
    loss, off = evaluate(ratio, advantage[pairs.token], logprob[pairs.token], old[pairs.token])
    share = pairs.spread(off.to(loss.dtype)) if held is None else held.to(loss.dtype)
    return pairs.spread(loss), share, pairs.spread((capped(ratio.values.detach()) - 1).abs())


def _left_out(spec: PolicyGradientSpec, view: TokenView, logprob: Tensor, advantage: Tensor) -> list[Tensor]:
    """Tokens that get no gradient by a choice over the step, bool [M] for each choice."""
    found = []
    if (chosen := spec.covariance) is not None:
        values = covariance.covariance(logprob, advantage)
        found.append(covariance.drawn_in_band(values, chosen.low, chosen.high, chosen.share))
    if spec.entropy_share < 1:
        found.append(~covariance.highest(view["policy_entropy"], spec.entropy_share))
    return found


def _mismatch(view: TokenView) -> dict[str, Tensor]:
    """What to watch where sampler and learner differ: token means of these are in the record."""
    rho = view[OLD_LOGPROB] - view[SAMPLER_LOGPROB]
    return {"mismatch_k3": capped(rho) - 1.0 - rho, "mismatch_chi_square": capped(2 * rho) - 1.0}


def score_centering(spec: ScoreCenteringSpec) -> Term:
    """The policy gradient of a sampler that is not the learner, without its drift."""

    def values(view: TokenView) -> TermValues:
        logprob, sampler = view["policy_logprob"], view[SAMPLER_LOGPROB]
        top, top_sampler = view["policy_top_logprobs"], view[TOP_LOGPROBS]
        loss = centering.score_centering(
            logprob, sampler, view[spec.stream], top, top_sampler, spec.weight, spec.low, spec.high
        )
        gap = (logprob.detach() - sampler).abs()
        return TermValues(loss, {"sampler_gap": gap, "covered_mass": top_sampler.exp().sum(-1)})

    return _term(
        "policy_gradient", spec, values, {"policy_logprob", "policy_top_logprobs"},
        [SAMPLER_LOGPROB, TOP_LOGPROBS, TOP_IDS], "token",
    )  # fmt: skip


def covariance_penalty(spec: CovariancePenaltySpec) -> Term:
    """KL-Cov: abs(log ratio) where the covariance is highest, 0 elsewhere."""
    old_name = old_signal(spec.old)

    def values(view: TokenView) -> TermValues:
        logprob = view["policy_logprob"]
        chosen = covariance.highest(covariance.covariance(logprob, view[spec.stream]), spec.share)
        gap = (logprob - view[old_name]).abs()
        return TermValues(torch.where(chosen, gap, torch.zeros_like(gap)))

    return _term("covariance_penalty", spec, values, {"policy_logprob"}, [old_name], "step")


def drift(spec: DriftSpec) -> Term:
    """(log ratio)^2 on every token."""
    old_name = old_signal(spec.old)

    def values(view: TokenView) -> TermValues:
        return TermValues((view["policy_logprob"] - view[old_name]) ** 2)

    return _term("drift", spec, values, {"policy_logprob"}, [old_name], "token")


def _term(
    name: str,
    spec: PolicyGradientSpec | ScoreCenteringSpec | CovariancePenaltySpec | DriftSpec,
    values: Callable[[TokenView], TermValues],
    needs: set[Need],
    reads: list[str],
    scope: Scope,
) -> Term:
    if spec.reduction == "constant" and spec.constant is None:
        raise InputError("reduction 'constant' needs `constant`: the number of tokens per sequence")
    return Term(
        name, spec.stream, values, frozenset(needs), tuple(dict.fromkeys(reads)), scope, spec.reduction, spec.constant,
        spec.coefficient, spec.learner, policy=True,
    )  # fmt: skip
