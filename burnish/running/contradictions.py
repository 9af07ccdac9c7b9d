"""Keys of a recipe that contradict each other, or that the others leave without an effect (promise E10).

A key is judged by its value: a default is never at fault, since a resolved recipe writes every key out. What concerns
one part alone (a schedule, a file's columns) is checked by that part's own class.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import BaseModel

from burnish.environments.spec import WorldSpec
from burnish.errors import InputError
from burnish.methods.grpo import GrpoRecipe
from burnish.methods.method import Declaration
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.methods.registry import METHODS
from burnish.running.yamlfile import KeyPath
from burnish.signals.spec import GroupAdvantageSpec
from burnish.sources.spec import DemonstrationsSpec
from burnish.tasks import Task
from burnish.tasks.spec import DataSpec

Found = Iterator[tuple[KeyPath, str]]

OPTIMIZER_KEYS: dict[str, frozenset[str]] = {
    "adamw": frozenset({"betas", "eps"}),
    "adam": frozenset({"betas", "eps"}),
    "nadam": frozenset({"betas", "eps"}),
    "radam": frozenset({"betas", "eps"}),
    "adamax": frozenset({"betas", "eps"}),
    "rmsprop": frozenset({"eps", "momentum"}),
    "adagrad": frozenset({"eps"}),
    "adadelta": frozenset({"eps"}),
    "sgd": frozenset({"momentum"}),
    "adafactor": frozenset(),
    "muon": frozenset({"betas", "eps"}),
}
"""Which of `betas`, `eps` and `momentum` each optimizer has. A test compares it with torch."""


def contradictions(recipe: Recipe) -> dict[KeyPath, str]:
    """What is wrong, with the fix, by the path of the key that is at fault; empty when nothing is."""
    declaration = METHODS[recipe.method].declare(recipe)
    checks = (_checkpoints(recipe), _trackers(recipe), _data(recipe), _model(recipe))
    found = dict(pair for check in checks for pair in check)
    found |= dict(_optimizer(recipe)) | dict(_learner(recipe, declaration))
    if isinstance(recipe, RolloutRecipe):
        found |= dict(_rewards(recipe)) | dict(_sampling(recipe, declaration))
    return found


def check_recipe(recipe: Recipe) -> None:
    """Raise InputError for what `contradictions` finds: for a recipe that was not read by `running.config`."""
    if found := contradictions(recipe):
        raise InputError("\n".join(f"{'.'.join(map(str, key))}: {text}" for key, text in found.items()))


def beyond_the_run(recipe: Recipe) -> list[str]:
    """What the run is too short for, in sentences.

    It is told and not refused: a recipe is tried out with `steps=2`, and the recipe that such a run writes down must
    load again.
    """
    guards = {
        f"guards.{name}": (_set(recipe.guards, name), "the guard only tells")
        for name in type(recipe.guards).model_fields
        if name.endswith("_steps")
    }
    every = None if recipe.evaluation is None else _set(recipe.evaluation, "every")
    intervals: dict[str, tuple[int | None, str]] = {
        "evaluation.every": (every, "held-out tasks are evaluated before and after alone"),
        "traces_every": (_set(recipe, "traces_every"), "the traces of the first step and the last are stored"),
        "checkpoint_every": (_set(recipe, "checkpoint_every"), "one checkpoint is saved, at the end"),
        **guards,
    }
    told = [
        f"{key} is {value}, and the run has {recipe.steps} steps: {so}"
        for key, (value, so) in intervals.items()
        if value is not None and value > recipe.steps
    ]
    total = optimizer_steps(recipe)
    if recipe.optimizer.warmup_steps > total:
        told.append(
            f"optimizer.warmup_steps is {recipe.optimizer.warmup_steps}, and the run has {total} optimizer steps: the "
            "learning rate never reaches its peak"
        )
    return told


def optimizer_steps(recipe: Recipe) -> int:
    """The most optimizer steps that a run takes: fewer where a part of a batch has nothing to train."""
    passes = sum(phase.passes for phase in METHODS[recipe.method].declare(recipe).controller.phases)
    return recipe.steps * passes * min(recipe.learner.optimizer_steps, recipe.prompts_per_step)


def check_tasks(recipe: Recipe, tasks: Sequence[Task]) -> None:
    """Raise InputError when a step takes more prompts than there are tasks, and so the same one twice."""
    if recipe.prompts_per_step > len(tasks):
        raise InputError(f"prompts_per_step: {_too_few(recipe, len(tasks))}")


def _too_few(recipe: Recipe, tasks: int) -> str:
    return (
        f"a step takes {recipe.prompts_per_step} prompts, but data has only {tasks}, so it would take some of them "
        f"twice; set prompts_per_step to {tasks} or less, or give more data"
    )


def _set(part: BaseModel, key: str) -> Any:
    """The value of a key where it differs from its default, else None."""
    value = getattr(part, key)
    return None if value == type(part).model_fields[key].default else value


def _checkpoints(recipe: Recipe) -> Found:
    mismatch = recipe.mismatch if isinstance(recipe, RolloutRecipe) else None
    if mismatch is not None and mismatch.stale and recipe.checkpoint_every:
        yield ("mismatch", "stale"), "a checkpoint does not hold the older weights: set checkpoint_every to 0"
    if not recipe.checkpoint_every and _set(recipe, "keep_checkpoints"):
        yield ("keep_checkpoints",), "unused: checkpoint_every is 0, so there are none; set that or remove this"


def _trackers(recipe: Recipe) -> Found:
    kinds = [tracker.kind for tracker in recipe.trackers]
    for place, kind in enumerate(kinds):
        if kind in kinds[:place]:
            yield ("trackers", place), f"{kind} is there twice, first as trackers.{kinds.index(kind)}; remove one"


def _data(recipe: Recipe) -> Found:
    trained: list[tuple[KeyPath, DataSpec]] = (
        [
            (("data", "mix", place) if recipe.data.mix else ("data",), part)
            for place, part in enumerate(recipe.data.parts)
        ]
        if recipe.data is not None
        else []
    )
    parts = list(trained)
    if recipe.evaluation is not None and recipe.evaluation.data is not None:
        parts.append((("evaluation", "data"), recipe.evaluation.data))
        if _set(recipe.evaluation.data, "completion") is not None:
            yield ("evaluation", "data", "completion"), "answers are compared with `correct.column`; remove it"
    for prefix, data in parts:
        if data.style == "text" and recipe.model.template != "plain":
            yield (*prefix, "style"), "text needs model.template: plain, since a chat template takes messages"
    if recipe.data is None:
        yield from _world(recipe)
        return
    family = recipe.data.family
    known, key = (recipe.data.limit, ("limit",)) if family is None else (family.count, ("family", "count"))
    if known is not None and recipe.prompts_per_step > known:
        default = _set(recipe, "prompts_per_step") is None
        yield ("data", *key) if default else ("prompts_per_step",), _too_few(recipe, known)
    if isinstance(recipe, RolloutRecipe):
        return
    for prefix, data in trained:
        if data.answer and _set(data, "answer") is not None:
            use = f"it is for whoever judges samples; {recipe.method} does not use it, so remove it"
            yield (*prefix, "answer"), use
    if recipe.data is not None and recipe.data.priority is not None:
        yield ("data", "priority"), f"{recipe.method} does not sample, so no success rates are measured: remove it"
    if recipe.data is not None and recipe.data.window is not None and recipe.data.window.measured:
        yield (
            ("data", "window", "column"),
            f"{recipe.method} does not sample, so no pass rates are measured: name a column that has them, or remove "
            "window",
        )


def _world(recipe: Recipe) -> Found:
    """Of a generated world: enough tasks for a step."""
    if isinstance(recipe.environment, WorldSpec) and recipe.prompts_per_step > recipe.environment.count:
        default = _set(recipe, "prompts_per_step") is None
        key = ("environment", "count") if default else ("prompts_per_step",)
        yield key, _too_few(recipe, recipe.environment.count)


def _model(recipe: Recipe) -> Found:
    if recipe.model.adapter is not None and recipe.model.adapter.dropout:
        yield ("model", "adapter", "dropout"), "dropout is always off in Burnish (promise E1); remove it"


def _optimizer(recipe: Recipe) -> Found:
    optimizer = recipe.optimizer
    for key in ("betas", "eps", "momentum"):
        if key not in OPTIMIZER_KEYS[optimizer.name] and _set(optimizer, key) is not None:
            yield ("optimizer", key), f"{optimizer.name} has no {key}; remove it"


def _learner(recipe: Recipe, declaration: Declaration) -> Found:
    if recipe.learner.optimizer_steps > recipe.prompts_per_step:
        yield (
            ("learner", "optimizer_steps"),
            f"a step's {recipe.prompts_per_step} prompts cannot be split into {recipe.learner.optimizer_steps} "
            "optimizer steps; lower it, or raise prompts_per_step",
        )
    if isinstance(declaration.source, DemonstrationsSpec) and not recipe.learner.share_prefixes:
        yield ("learner", "share_prefixes"), "unused: each demonstration is a sequence of its own; remove it"


def _rewards(recipe: RolloutRecipe) -> Found:
    rewards = recipe.rewards
    if rewards is None:
        return
    kinds = dict.fromkeys(reward.kind for reward in rewards.rewards)
    if kinds.keys() <= {"numeric", "format"} and _set(rewards, "concurrency") is not None:
        yield ("rewards", "concurrency"), f"unused: rewards of kind {' and '.join(kinds)} are not waited for; remove it"


def _sampling(recipe: RolloutRecipe, declaration: Declaration) -> Found:
    phases = declaration.controller.phases
    if any(isinstance(a, GroupAdvantageSpec) for phase in phases for a in phase.annotators):
        for key, only in (("top_k", 1), ("min_p", 1.0)):
            if getattr(recipe.sampling, key) == only:
                yield ("sampling", key), f"{only:g} keeps one token, so samples of a prompt are all alike; change it"
        weights = [reward.weight for reward in recipe.rewards.rewards] if recipe.rewards is not None else [1.0]
        if not any(weights) and len(phases[0].terms) == 1:
            yield ("rewards",), "every weight is 0, so every reward is 0 and nothing is learned; give one a weight"
    if not isinstance(recipe, GrpoRecipe):
        return
    if recipe.samples_per_prompt == 1 and not recipe.options.alone:
        yield (
            ("samples_per_prompt",),
            f"a group of one has nothing to compare, and options.advantage {recipe.options.advantage} compares; set it "
            "to 2 or more, or options.advantage to reinforce_pp or remax",
        )
    if (k := recipe.options.k) is not None and k > recipe.samples_per_prompt:
        yield (
            ("options", "k"),
            f"the best of {k} is asked for of {recipe.samples_per_prompt} samples of a prompt; lower it, or raise "
            "samples_per_prompt",
        )
    once = recipe.options.passes == 1 and recipe.learner.optimizer_steps == 1 and recipe.options.old == "learner"
    for key in ("clip_low", "clip_high"):
        if once and _set(recipe.options, key) is not None:
            yield (
                ("options", key),
                "unused: with old: learner, one pass and one optimizer step the ratio is 1 and is never clipped; "
                "remove it, or raise options.passes or learner.optimizer_steps",
            )
