"""Annotators that need a model: log-probabilities of the sampled tokens under a reference or the learner itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from burnish.errors import InputError
from burnish.learning.scoring import score, score_top
from burnish.learning.spec import LearnerSpec
from burnish.ledger import Ledger
from burnish.losses.term import Need
from burnish.models.language_model import LanguageModel
from burnish.signals.annotators import Annotator
from burnish.signals.annotators import build as build_pure
from burnish.signals.spec import AnnotatorSpec, ScoreSpec, TopSpec
from burnish.traces import Group
from burnish.traces.signal_names import TOP_IDS, TOP_LOGPROBS

ModelOf = Callable[[str], LanguageModel]


class Reference:
    """A frozen model by name: weights of its own, or a policy with its adapter switched off."""

    def __init__(self, model: LanguageModel, *, adapter_off: bool = False, temperature: float = 1.0) -> None:
        self.model = model
        self.adapter_off = adapter_off
        self.temperature = temperature
        """What a sampler multiplies the temperature with that it is asked for; 1 for one that does as it is told."""

    def score(
        self,
        groups: Sequence[Group],
        signal: str,
        layout: LearnerSpec,
        *,
        ledger: Ledger | None = None,
        role: str | None = None,
        need: Need = "policy_logprob",
    ) -> None:
        """Write the model's log-probabilities of the sampled tokens, or what else `need` says, as a signal.

        Counted as by `score`.
        """
        with self.model.without_adapter() if self.adapter_off else nullcontext():
            score(self.model, groups, (need,), layout, ledger=ledger, role=role).write(signal, need)


def build(
    spec: AnnotatorSpec, models: Mapping[str, Reference], layout: LearnerSpec, ledger: Ledger | None = None
) -> Annotator:
    """The annotator a spec declares, with the named models at hand.

    A `ledger` counts what a model scores under its name. Raises InputError for a model that is not there.
    """
    if not isinstance(spec, ScoreSpec | TopSpec):
        return build_pure(spec)
    if spec.model not in models:
        raise InputError(f"a score by model {spec.model!r} is asked for, but the run has only {sorted(models)}")
    reference = models[spec.model]
    if isinstance(spec, TopSpec):
        return _top(spec, reference, layout, ledger)
    signal, role = spec.signal, spec.model
    need: Need = "policy_top_logprobs" if spec.top else "policy_logprob"

    def annotate(groups: Sequence[Group]) -> None:
        reference.score(groups, signal, layout, ledger=ledger, role=role, need=need)

    return annotate


def _top(spec: TopSpec, sampler: Reference, layout: LearnerSpec, ledger: Ledger | None) -> Annotator:
    def annotate(groups: Sequence[Group]) -> None:
        covered = score_top(
            sampler.model, groups, spec.k, (TOP_IDS, TOP_LOGPROBS), layout, temperature=sampler.temperature,
            ledger=ledger, role=spec.model,
        )  # fmt: skip
        if covered < spec.least_mass:
            raise InputError(
                f"the {spec.k} most probable tokens of the sampler cover only {covered:.3f} of its mass, and at least "
                f"{spec.least_mass:g} is needed for what they are to take away: raise options.centering.k"
            )

    return annotate
