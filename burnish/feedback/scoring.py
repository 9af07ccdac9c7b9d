"""Annotators that need a model: log-probabilities of the sampled tokens under a reference or the learner itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext

from burnish.errors import InputError
from burnish.learning.scoring import score
from burnish.learning.spec import LearnerSpec
from burnish.ledger import Ledger
from burnish.models.language_model import LanguageModel
from burnish.signals.annotators import Annotator
from burnish.signals.annotators import build as build_pure
from burnish.signals.spec import AnnotatorSpec, ScoreSpec
from burnish.traces import Group

ModelOf = Callable[[str], LanguageModel]


class Reference:
    """A frozen model by name: weights of its own, or a policy with its adapter switched off."""

    def __init__(self, model: LanguageModel, *, adapter_off: bool = False) -> None:
        self.model = model
        self.adapter_off = adapter_off

    def score(
        self,
        groups: Sequence[Group],
        signal: str,
        layout: LearnerSpec,
        *,
        ledger: Ledger | None = None,
        role: str | None = None,
    ) -> None:
        """Write the model's log-probabilities of the sampled tokens as a signal; counted as by `score`."""
        with self.model.without_adapter() if self.adapter_off else nullcontext():
            score(self.model, groups, layout=layout, ledger=ledger, role=role).write(signal)


def build(
    spec: AnnotatorSpec, models: Mapping[str, Reference], layout: LearnerSpec, ledger: Ledger | None = None
) -> Annotator:
    """The annotator a spec declares, with the named models at hand.

    A `ledger` counts what a model scores under its name. Raises InputError for a model that is not there.
    """
    if not isinstance(spec, ScoreSpec):
        return build_pure(spec)
    if spec.model not in models:
        raise InputError(f"a score by model {spec.model!r} is asked for, but the run has only {sorted(models)}")
    reference = models[spec.model]

    def annotate(groups: Sequence[Group]) -> None:
        reference.score(groups, spec.signal, layout, ledger=ledger, role=spec.model)

    return annotate
