"""From a recipe to the parts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from burnish.control.controller import Controller
from burnish.control.controller import build as build_controller
from burnish.control.guards import Guards
from burnish.control.spec import PhaseSpec
from burnish.environments.protocol import Family
from burnish.environments.registry import Custom
from burnish.feedback.build import build as build_feedback
from burnish.feedback.checking import Check
from burnish.feedback.judge import Feedback
from burnish.feedback.scoring import Reference
from burnish.feedback.scoring import build as build_annotator
from burnish.learning.learner import Learner
from burnish.ledger import Ledger
from burnish.losses.build import build as build_term
from burnish.losses.term import Term
from burnish.methods.method import Declaration
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.methods.registry import METHODS
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.outside import Outside
from burnish.running.acting import acting_of, decoded, evaluation_context, family_of, setting_of, trial_of
from burnish.running.contradictions import check_recipe, check_tasks
from burnish.running.held_apart import checked_overlap
from burnish.running.judgeable import judgeable
from burnish.sampling import LocalEngine
from burnish.sampling.mismatch import MismatchedEngine
from burnish.signals.annotators import Annotator
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.judged import single_turns
from burnish.sources.scripted import OracleDemonstrations
from burnish.sources.source import Source
from burnish.sources.source import build as build_source
from burnish.sources.spec import EpisodesSpec
from burnish.tasks import Task, build_tasks
from burnish.tasks.build import Data, read_data
from burnish.tasks.checking import Room, fitting
from burnish.tasks.overlap import Overlap
from burnish.tasks.rendering import prompt_of
from burnish.traces import Span
from burnish.traces.templates import Format, chat_format


@dataclass
class Phase:
    """A declared phase with its parts."""

    spec: PhaseSpec
    annotators: list[Annotator]
    terms: list[Term]


@dataclass
class Parts:
    """Everything a run is made of."""

    recipe: Recipe
    declaration: Declaration
    policy: LanguageModel
    format: Format
    learner: Learner
    sampler: LocalEngine | None
    source: Source
    feedback: Feedback | None
    controller: Controller
    guards: Guards
    ledger: Ledger
    phases: dict[int, Phase] = field(default_factory=dict)
    """Built phases by the identity of their spec, which the controller hands out."""
    references: dict[str, Reference] = field(default_factory=dict)
    held_out: list[Task] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    """How the data was read."""
    overlap: Overlap | None = None
    """What of the held-out tasks is in the training data."""
    behaviour: MismatchedEngine | None = None
    """What samples in the place of `sampler`, where a mismatch is asked for; `sampler` then only evaluates."""
    trial: Stage | None = None
    """What held-out attempts are made with, where an environment judges them."""
    check: Check | None = None
    """What judges held-out answers otherwise."""

    @property
    def learners(self) -> dict[str, Learner]:
        """Every learner by the name of its model."""
        return {self.learner.model.name: self.learner}

    def close(self) -> None:
        """End what works beside the run's own process: the verifiers' workers."""
        for feedback in (self.feedback, self.check and self.check.feedback):
            if feedback is not None:
                feedback.close()

    def publish(self) -> None:
        """Tell every sampler of the policy's weights."""
        for engine in (self.sampler, self.behaviour):
            if engine is not None:
                engine.publish(self.policy.version)

    def phase(self, spec: PhaseSpec) -> Phase:
        """The parts of a phase, built when it first runs."""
        if id(spec) not in self.phases:
            mine = Reference(self.policy)
            drawn = mine
            if self.behaviour is not None:
                drawn = Reference(self.behaviour.model, temperature=self.behaviour.spec.temperature)
            models = {**self.references, self.policy.name: mine, "sampler": drawn}
            annotators = [build_annotator(a, models, self.recipe.learner, self.ledger) for a in spec.annotators]
            self.phases[id(spec)] = Phase(spec, annotators, [build_term(t) for t in spec.terms])
        return self.phases[id(spec)]

    def text(self, span: Span) -> str:
        """What the policy wrote on a span's path, without the stop token and special tokens."""
        sampled: list[int] = []
        for node in span.trace.path(span.leaf):
            own = span.trace.sampled_by(node, self.policy.name)
            sampled.extend(span.trace.nodes[node].tokens[own].tolist())
        return self.decode(sampled)

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of sampled tokens, for people and verifiers; it never becomes tokens again (promise E6)."""
        return decoded(self.policy, self.format, tokens)

    def render(self, task: Task) -> list[int]:
        """Prompt ids of a task."""
        return prompt_of(self.format, task).tokens


def format_of(model: LanguageModel, template: str) -> Format:
    """The format that `ModelSpec.template` asks for: "plain", or the template the model was loaded with.

    Raises InputError when there is no template and plain text was not asked for.
    """
    configured = getattr(model.network, "generation_config", None)
    ends = getattr(configured, "eos_token_id", None)
    stop_ids = [ends] if isinstance(ends, int) else list(ends or ())
    # a template from a file is the tokenizer's own by now: the loader has put it there
    return chat_format(model.tokenizer, "plain" if template == "plain" else "auto", stop_ids=stop_ids)


def assemble(recipe: Recipe, *, base: Path | None = None, outside: Outside | None = None) -> Parts:
    """Load the model and build every part of a run. Raises InputError for anything in the recipe that cannot work.

    Relative paths in the recipe are taken from `base`. Foreign code is asked through `outside`, the journal of a run.
    """
    check_recipe(recipe)
    if recipe.threads is not None:
        torch.set_num_threads(recipe.threads)
    declaration = METHODS[recipe.method].declare(recipe)
    want = "prompts" if isinstance(recipe, RolloutRecipe) else "demonstrations"
    data = Data([]) if recipe.data is None else read_data(recipe.data, seed=recipe.seed, want=want, base=base)
    family = None
    if recipe.environment is not None:
        family = family_of(recipe.environment, seed=recipe.seed, base=base, tasks=data.tasks)
    held_out, trial, shared = _held_out(recipe, data.tasks if family is None else family.tasks(), family, base)
    policy = load_model(recipe.model, name="policy", seed=recipe.seed)
    form = format_of(policy, recipe.model.template)
    room = Room(policy.context_length, "the context of the model")
    tasks = data.tasks if recipe.data is None else fitting(data.tasks, form, room, recipe.data)
    if recipe.data is not None:
        check_tasks(recipe, tasks)
    passes = sum(p.passes for p in declaration.controller.phases)
    ledger = Ledger()
    learner = Learner(
        policy, recipe.optimizer, recipe.learner, seed=recipe.seed,
        total_steps=recipe.steps * passes * min(recipe.learner.optimizer_steps, recipe.prompts_per_step),
        ledger=ledger,
    )  # fmt: skip
    sampler = context = feedback = acting = behaviour = None
    if isinstance(recipe, RolloutRecipe):
        sampler = LocalEngine(policy, max_rows=recipe.engine_rows, deterministic=recipe.deterministic)
        if recipe.mismatch is not None:
            copy = load_model(recipe.model, name="policy", train=False, seed=recipe.seed)
            behaviour = MismatchedEngine(
                policy, copy, recipe.mismatch, max_rows=recipe.engine_rows, deterministic=recipe.deterministic
            )
        context = Context(behaviour or sampler, form, recipe.sampling.params(form.stop_ids), recipe.seed, ledger)
        if recipe.rewards is not None:
            feedback = build_feedback(recipe.rewards, base, ledger=ledger, outside=outside)
            tasks = judgeable(tasks, feedback, recipe.data)
            check_tasks(recipe, tasks)
            acting = single_turns(feedback, setting_of(context, policy), recipe.refills)
    elif recipe.evaluation is not None:
        sampler = LocalEngine(policy, deterministic=recipe.deterministic)
    if family is not None:
        if isinstance(family, Custom):
            family = family.with_tasks(tasks)  # those that fit the model
        acting = acting_of(recipe, declaration, family, form, context, policy, ledger, outside)
        tasks = family.tasks()
    if isinstance(acting, OracleDemonstrations):
        source: Source = acting
    else:
        source = build_source(
            declaration.source, tasks, context=context, format=form, seed=recipe.seed, ledger=ledger, data=recipe.data,
            stage=acting, selection=recipe.selection if isinstance(recipe, RolloutRecipe) else None,
        )  # fmt: skip
    return Parts(
        recipe=recipe, declaration=declaration, policy=policy, format=form, learner=learner, sampler=sampler,
        behaviour=behaviour,
        source=source,
        feedback=feedback, controller=build_controller(declaration.controller), guards=Guards(recipe.guards),
        ledger=ledger,
        references={name: _reference(recipe, policy, name) for name in declaration.references}, held_out=held_out,
        told=data.told, overlap=shared, trial=_trial(recipe, trial, form, sampler, policy, ledger),
        check=_check(recipe, trial, held_out, base, ledger, outside),
    )  # fmt: skip


def _reference(recipe: Recipe, policy: LanguageModel, name: str) -> Reference:
    if policy.adapter and recipe.model.adapter is not None and recipe.model.adapter.path is None:
        return Reference(policy, adapter_off=True)  # a fresh adapter changes nothing: off is where it started
    return Reference(load_model(recipe.model, name=name, train=False, seed=recipe.seed))


def _held_out(
    recipe: Recipe, tasks: Sequence[Task], family: Family | None, base: Path | None
) -> tuple[list[Task], Family | None, Overlap | None]:
    """The held-out tasks, what they are attempted in, where an environment judges them, and what training shares."""
    evaluation = recipe.evaluation
    if evaluation is None:
        return [], None, None
    if evaluation.environment is not None:
        trial: Family | None = family_of(evaluation.environment, seed=recipe.seed, base=base)
        held_out = trial.tasks()
    else:
        assert evaluation.data is not None  # the spec holds one of the two
        trial = family if isinstance(family, Custom) else None
        held_out = build_tasks(evaluation.data, seed=recipe.seed, base=base)
    return held_out, trial, checked_overlap(evaluation, held_out, tasks, recipe.environment)


def _check(
    recipe: Recipe,
    trial: Family | None,
    held_out: Sequence[Task],
    base: Path | None,
    ledger: Ledger,
    outside: Outside | None,
) -> Check | None:
    """What judges held-out answers, where no environment does."""
    if recipe.evaluation is None or trial is not None:
        return None
    check = Check(recipe.evaluation.correct, base, ledger=ledger, outside=outside)
    check.feedback.check(held_out)
    return check


def _trial(
    recipe: Recipe,
    family: Family | None,
    form: Format,
    sampler: LocalEngine | None,
    policy: LanguageModel,
    ledger: Ledger,
) -> Stage | None:
    """What held-out attempts are made with, where an environment judges them."""
    if family is None or sampler is None or recipe.evaluation is None:
        return None
    spec = recipe.evaluation.environment or recipe.environment
    assert spec is not None  # the family is its
    episodes = recipe.episodes if isinstance(recipe, RolloutRecipe) else EpisodesSpec()
    context = evaluation_context(sampler, form, recipe.evaluation, recipe.seed, ledger)
    return trial_of(spec, family, episodes, context, policy)
