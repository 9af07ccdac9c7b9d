"""Pass rates of a model on the held-out tasks that a recipe's evaluation names: greedy, and at temperature 1."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from burnish.errors import InputError
from burnish.feedback.checking import Check
from burnish.ledger import Ledger
from burnish.methods.recipe import EvaluationSpec, Recipe
from burnish.models.language_model import LanguageModel
from burnish.models.loading import load_model
from burnish.models.spec import ModelSpec
from burnish.running.acting import family_of, setting_of
from burnish.running.assemble import format_of
from burnish.running.config import load_recipe
from burnish.running.sync import finished
from burnish.sampling import LocalEngine, SamplingParams
from burnish.sources.calls import syntax_of
from burnish.sources.context import Context
from burnish.sources.episodes import Stage
from burnish.sources.spec import EpisodesSpec
from burnish.studies.acting import evaluate_attempts
from burnish.studies.evaluation import Evaluation, evaluate
from burnish.studies.judging import judged_by
from burnish.tasks import build_tasks
from burnish.tasks.rendering import prompt_of

Measure = Callable[[float, int], Evaluation]
"""From a temperature and a number of samples for each task to what came of them."""


def pass_rates(
    model: str | Path, recipe: str | Path | Recipe, *, samples: int = 4, turns: int | None = None, seed: int = 0
) -> dict[str, Evaluation]:
    """Answers to the held-out tasks of the recipe's evaluation, or attempts at them: `greedy`, one for each task, and
    `sampled`, so many for each at temperature 1. Computed in float32. An attempt has at most `turns`, by default as
    many as the recipe or else the world says.

    Raises InputError when the recipe has no evaluation, and for a model that cannot be loaded.
    """
    whole = recipe if isinstance(recipe, Recipe) else load_recipe(recipe, ())
    spec = whole.evaluation
    if spec is None:
        raise InputError(f"{recipe} has no `evaluation`, so it names no held-out tasks")
    policy = load_model(ModelSpec(path=str(model), dtype="float32"), train=False)
    if spec.environment is not None:
        episodes = getattr(whole, "episodes", EpisodesSpec())
        if turns is not None:
            episodes = episodes.model_copy(update={"turns": turns})
        measure = _in_a_world(policy, spec, episodes, seed)
        return {"greedy": measure(0.0, 1), "sampled": measure(1.0, samples)}
    check = Check(spec.correct)
    try:
        measure = _by_a_check(policy, spec, check, seed)
        return {"greedy": measure(0.0, 1), "sampled": measure(1.0, samples)}
    finally:
        check.feedback.close()


def _by_a_check(policy: LanguageModel, spec: EvaluationSpec, check: Check, seed: int) -> Measure:
    if spec.data is None:
        raise InputError("evaluation: neither `data` nor `environment` names held-out tasks")
    tasks = build_tasks(spec.data, seed=seed)
    form, engine = format_of(policy, "auto"), LocalEngine(policy, max_rows=256)

    def text(tokens: object) -> str:
        return policy.tokenizer.decode(tokens, skip_special_tokens=True)

    def measure(temperature: float, count: int) -> Evaluation:
        params = SamplingParams(spec.max_tokens, temperature=temperature, stop_ids=frozenset(form.stop_ids))
        return finished(
            evaluate(
                engine, tasks, render=lambda task: prompt_of(form, task).tokens, text=text, params=params,
                judge=judged_by(check), samples_per_task=count, seed=seed,
            )
        )  # fmt: skip

    return measure


def _in_a_world(policy: LanguageModel, spec: EvaluationSpec, episodes: EpisodesSpec, seed: int) -> Measure:
    assert spec.environment is not None  # as the caller saw
    calls = spec.environment.calls
    family = family_of(spec.environment, seed=seed, base=None)
    form, engine = format_of(policy, "auto"), LocalEngine(policy, max_rows=256)

    def measure(temperature: float, count: int) -> Evaluation:
        params = SamplingParams(spec.max_tokens, temperature=temperature, stop_ids=form.stop_ids)
        context = Context(engine, form, params, seed, Ledger())
        stage = Stage.of(family, episodes, setting_of(context, policy), syntax_of(calls, form), refills=0)
        return finished(evaluate_attempts(stage, family.tasks(), samples_per_task=count))

    return measure
