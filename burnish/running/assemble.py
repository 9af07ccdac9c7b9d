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
from burnish.errors import InputError
from burnish.feedback.build import build as build_feedback
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
from burnish.running.contradictions import check_recipe, check_tasks
from burnish.sampling import LocalEngine
from burnish.signals.annotators import Annotator
from burnish.sources.context import Context
from burnish.sources.source import Source
from burnish.sources.source import build as build_source
from burnish.tasks import Task, build_tasks
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

    @property
    def learners(self) -> dict[str, Learner]:
        """Every learner by the name of its model."""
        return {self.learner.model.name: self.learner}

    def phase(self, spec: PhaseSpec) -> Phase:
        """The parts of a phase, built when it first runs."""
        if id(spec) not in self.phases:
            models = {**self.references, self.policy.name: Reference(self.policy)}
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
        kept = list(tokens)
        while kept and kept[-1] in self.format.stop_ids:
            kept.pop()
        return self.policy.tokenizer.decode(kept, skip_special_tokens=True)

    def render(self, task: Task) -> list[int]:
        """Prompt ids of a task."""
        return self.format.prompt(task.prompt if task.messages is None else list(task.messages)).tokens


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
    tasks = build_tasks(recipe.data, seed=recipe.seed, demonstrations=not isinstance(recipe, RolloutRecipe), base=base)
    check_tasks(recipe, tasks)
    held_out = _held_out(recipe, tasks, base)
    policy = load_model(recipe.model, name="policy", seed=recipe.seed)
    form = format_of(policy, recipe.model.template)
    passes = sum(p.passes for p in declaration.controller.phases)
    ledger = Ledger()
    learner = Learner(
        policy, recipe.optimizer, recipe.learner, seed=recipe.seed,
        total_steps=recipe.steps * passes * min(recipe.learner.optimizer_steps, recipe.prompts_per_step),
        ledger=ledger,
    )  # fmt: skip
    sampler = context = feedback = None
    if isinstance(recipe, RolloutRecipe):
        sampler = LocalEngine(policy, max_rows=recipe.engine_rows, deterministic=recipe.deterministic)
        context = Context(sampler, form, recipe.sampling.params(form.stop_ids), recipe.seed, ledger)
        feedback = build_feedback(recipe.rewards, base, ledger=ledger, outside=outside)
        feedback.check(tasks)
        _check_lengths(policy, form, tasks)
    elif recipe.evaluation is not None:
        sampler = LocalEngine(policy, deterministic=recipe.deterministic)
    return Parts(
        recipe=recipe, declaration=declaration, policy=policy, format=form, learner=learner, sampler=sampler,
        source=build_source(
            declaration.source, tasks, context=context, format=form, seed=recipe.seed, ledger=ledger
        ),
        feedback=feedback, controller=build_controller(declaration.controller), guards=Guards(recipe.guards),
        ledger=ledger,
        references={name: _reference(recipe, policy, name) for name in declaration.references}, held_out=held_out,
    )  # fmt: skip


def _check_lengths(policy: LanguageModel, form: Format, tasks: Sequence[Task]) -> None:
    """Refuse a prompt that leaves no room for an answer, before a run finds it hours in. A token is a byte or more."""
    limit = policy.context_length
    for task in tasks:
        if limit is None or len(task.text.encode()) < limit // 2:
            continue
        length = len(form.prompt(task.prompt if task.messages is None else list(task.messages)).tokens)
        if length >= limit:
            raise InputError(
                f"the prompt of task {task.id} has {length} tokens, but the context of the model is {limit}: shorten "
                f"or remove that row ({task.text[:60]!r}...)"
            )


def _reference(recipe: Recipe, policy: LanguageModel, name: str) -> Reference:
    if policy.adapter and recipe.model.adapter is not None and recipe.model.adapter.path is None:
        return Reference(policy, adapter_off=True)  # a fresh adapter changes nothing: off is where it started
    return Reference(load_model(recipe.model, name=name, train=False, seed=recipe.seed))


def _held_out(recipe: Recipe, tasks: Sequence[Task], base: Path | None) -> list[Task]:
    if recipe.evaluation is None:
        return []
    held_out = build_tasks(recipe.evaluation.data, seed=recipe.seed, base=base)
    shared = {t.id for t in tasks} & {t.id for t in held_out}
    if shared:
        raise InputError(
            f"{len(shared)} of the {len(held_out)} held-out tasks are also trained on: evaluation.data and data overlap"
        )
    return held_out
