"""From declared terms to the functions the learner evaluates."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from burnish.errors import InputError, note
from burnish.losses import functions
from burnish.losses.spec import CrossEntropySpec, EntropySpec, PolicyGradientSpec, ReferenceKlSpec, TermSpec
from burnish.losses.term import Need, Term, TermValues, TokenView

SAMPLER_LOGPROB = "sampler_logprob"
"""Signal name of the behaviour log-probability stored with each sampled token."""
OLD_LOGPROB = "old_logprob"
"""Signal name of the learner's own log-probability at the start of an update."""


def reference_signal(model: str) -> str:
    """Name of the signal that holds a frozen model's log-probabilities of the sampled tokens."""
    return f"{model}_logprob"


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
    old_name = SAMPLER_LOGPROB if spec.old == "sampler" else OLD_LOGPROB

    def values(view: TokenView) -> TermValues:
        logprob, old, advantage = view["policy_logprob"], view[old_name], view[spec.stream]
        clip = (spec.clip_low, spec.clip_high)
        loss = functions.clipped_policy_gradient(logprob, old, advantage, *clip)
        gap = (logprob.detach() - view[SAMPLER_LOGPROB]).abs()
        share = functions.clipped_share(logprob, old, advantage, *clip)
        return TermValues(loss, {"clipped_share": share, "sampler_gap": gap})

    reads = tuple(dict.fromkeys((old_name, SAMPLER_LOGPROB)))
    return _term("policy_gradient", spec, spec.stream, values, "policy_logprob", reads)


@build.register
def _reference_kl(spec: ReferenceKlSpec) -> Term:
    if spec.estimator == "k3":
        note(
            "estimator 'k3' in the loss follows the gradient of KL(reference || policy), not of the KL it reports; "
            "use 'k3_ratio' or 'k2'"
        )
    reference = reference_signal(spec.reference)

    def values(view: TokenView) -> TermValues:
        logprob, ref = view["policy_logprob"], view[reference]
        if spec.estimator == "k2":
            loss = functions.kl_k2(logprob, ref)
        elif spec.estimator == "k3":
            loss = functions.kl_k3(logprob, ref)
        else:
            base = functions.kl_k3 if spec.estimator == "k3_ratio" else functions.kl_k1
            loss = functions.ratio_weighted(base(logprob, ref), logprob, view[SAMPLER_LOGPROB])
        return TermValues(loss, {"reference_kl": functions.kl_k3(logprob.detach(), ref)})

    reads = (reference, SAMPLER_LOGPROB)
    return _term("reference_kl", spec, spec.stream, values, "policy_logprob", reads)


@build.register
def _entropy(spec: EntropySpec) -> Term:
    def values(view: TokenView) -> TermValues:
        return TermValues(-view["policy_entropy"])

    return _term("entropy", spec, spec.stream, values, "policy_entropy")
