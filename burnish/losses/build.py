"""From declared terms to the functions the learner evaluates."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from burnish.errors import InputError
from burnish.losses import functions, policy
from burnish.losses.spec import (
    REFUSED_KL,
    CovariancePenaltySpec,
    CrossEntropySpec,
    DriftSpec,
    EntropySpec,
    PolicyGradientSpec,
    ReferenceKlSpec,
    ScoreCenteringSpec,
    TermSpec,
)
from burnish.losses.term import Need, Term, TermValues, TokenView
from burnish.traces.signal_names import OLD_LOGPROB, SAMPLER_LOGPROB, TOP_IDS, reference_signal, reference_top_signal

__all__ = ["OLD_LOGPROB", "SAMPLER_LOGPROB", "build", "reference_signal"]


@singledispatch
def build(spec: TermSpec) -> Term:
    """The term that a spec declares. Raises InputError for a spec nobody registered."""
    raise InputError(f"no loss term is registered for {type(spec).__name__}")


def _term(
    name: str,
    spec: TermSpec,
    stream: str,
    function: Callable[[TokenView], TermValues],
    need: Need,
    reads: tuple[str, ...] = (),
    *,
    policy: bool = True,
    linear: bool = False,
) -> Term:
    """A token-scope term with the settings that every spec has."""
    if spec.reduction == "constant" and spec.constant is None:
        raise InputError("reduction 'constant' needs `constant`: the number of tokens per sequence")
    return Term(
        name,
        stream,
        function,
        frozenset({need}),
        reads,
        reduction=spec.reduction,
        constant=spec.constant,
        coefficient=spec.coefficient,
        learner=spec.learner,
        policy=policy,
        linear=linear,
    )


@build.register
def _cross_entropy(spec: CrossEntropySpec) -> Term:
    def values(view: TokenView) -> TermValues:
        logprob = view["logprob"]
        return TermValues(functions.cross_entropy(logprob, view[spec.stream]), {"nll": -logprob.detach()})

    return _term("cross_entropy", spec, spec.stream, values, "logprob", policy=False, linear=True)


@build.register
def _policy_gradient(spec: PolicyGradientSpec) -> Term:
    return policy.policy_gradient(spec)


@build.register
def _score_centering(spec: ScoreCenteringSpec) -> Term:
    return policy.score_centering(spec)


@build.register
def _covariance_penalty(spec: CovariancePenaltySpec) -> Term:
    return policy.covariance_penalty(spec)


@build.register
def _drift(spec: DriftSpec) -> Term:
    return policy.drift(spec)


@build.register
def _reference_kl(spec: ReferenceKlSpec) -> Term:
    if reason := REFUSED_KL.get(spec.estimator):
        raise InputError(f"estimator {spec.estimator!r}: {reason}")
    if spec.estimator == "k1_reward":
        raise InputError("estimator 'k1_reward' is no term of a loss: it is taken from the reward by an annotator")
    reference = reference_signal(spec.reference)
    if spec.estimator == "top_k":
        return _top_kl(spec, reference_top_signal(spec.reference))

    def values(view: TokenView) -> TermValues:
        logprob, ref, old = view["policy_logprob"], view[reference], view[SAMPLER_LOGPROB]
        loss = functions.kl_loss(spec.estimator, logprob, ref, old)
        return TermValues(loss, {"reference_kl": functions.kl_k3(logprob.detach(), ref)})

    reads = (reference, SAMPLER_LOGPROB)
    return _term("reference_kl", spec, spec.stream, values, "policy_logprob", reads)


def _top_kl(spec: ReferenceKlSpec, reference: str) -> Term:
    def values(view: TokenView) -> TermValues:
        loss = functions.kl_top(view["policy_top_logprobs"], view[reference])
        return TermValues(loss, {"reference_kl": loss.detach()})

    return _term("reference_kl", spec, spec.stream, values, "policy_top_logprobs", (TOP_IDS, reference))


@build.register
def _entropy(spec: EntropySpec) -> Term:
    def values(view: TokenView) -> TermValues:
        return TermValues(-view["policy_entropy"])

    return _term("entropy", spec, spec.stream, values, "policy_entropy")
