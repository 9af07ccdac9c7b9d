"""What of a run takes place in an environment: the attempts it trains on, those it is evaluated by, demonstrations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from burnish.environments.protocol import Family, World
from burnish.environments.registry import build
from burnish.environments.spec import AnyEnvironment
from burnish.ledger import Ledger
from burnish.methods.method import Declaration
from burnish.methods.recipe import EvaluationSpec, Recipe, RolloutRecipe
from burnish.models.language_model import LanguageModel
from burnish.outside import Outside
from burnish.sampling.protocol import Sampler
from burnish.sources.calls import syntax_of, tool_role
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.scripted import OracleDemonstrations, Theatre
from burnish.sources.spec import DemonstrationsSpec, EpisodesSpec
from burnish.sources.speech import Setting
from burnish.tasks import Task
from burnish.traces.templates import Format


def family_of(spec: AnyEnvironment, *, seed: int, base: Path | None, tasks: Sequence[Task] = ()) -> Family:
    """The tasks and environments that a recipe names; `tasks` are its data's. Raises InputError."""
    return build(spec, seed=seed, base=base, tasks=tasks)


def decoded(model: LanguageModel, form: Format, tokens: Sequence[int]) -> str:
    """Text of sampled tokens without the stop token and special tokens, for people and verifiers (promise E6)."""
    kept = list(tokens)
    while kept and kept[-1] in form.stop_ids:
        kept.pop()
    return model.tokenizer.decode(kept, skip_special_tokens=True)


def acting_of(
    recipe: Recipe,
    declaration: Declaration,
    family: Family,
    form: Format,
    context: Context | None,
    model: LanguageModel,
    ledger: Ledger,
    outside: Outside | None,
) -> Stage | OracleDemonstrations:
    """What attempts of the policy are made with; without a sampler, a source of the oracle's attempts.

    Raises InputError where the template's tool calls cannot be read.
    """
    assert recipe.environment is not None  # the family is its
    syntax = syntax_of(recipe.environment.calls, form)
    if isinstance(recipe, RolloutRecipe) and context is not None:
        setting = setting_of(context, model)
        return Stage.of(family, recipe.episodes, setting, syntax, refills=recipe.refills, outside=outside)
    world = cast(World, family)  # a recipe that does not sample has no other
    return OracleDemonstrations(
        cast(DemonstrationsSpec, declaration.source), world, Theatre(*syntax, turns=world.turns), form, recipe.seed,
        tool_role=tool_role(form), ledger=ledger,
    )  # fmt: skip


def trial_of(
    spec: AnyEnvironment, family: Family, episodes: EpisodesSpec, context: Context, model: LanguageModel
) -> Stage:
    """What held-out attempts are made with. What the machinery spoils is told as missing, and not drawn anew."""
    episodes = episodes.model_copy(update={"branch": None})
    return Stage.of(family, episodes, setting_of(context, model), syntax_of(spec.calls, context.format), refills=0)


def evaluation_context(sampler: Sampler, form: Format, spec: EvaluationSpec, seed: int, ledger: Ledger) -> Context:
    """A context that draws as the evaluation says, counted as an evaluation's."""
    return Context(sampler, form, spec.sampling.params(form.stop_ids), seed, ledger, role="evaluation")


def setting_of(context: Context, model: LanguageModel) -> Setting:
    """What attempts share on the side of the tokens."""
    form = context.format
    return Setting(context, lambda tokens: decoded(model, form, tokens), tool_role(form), model.context_length)
