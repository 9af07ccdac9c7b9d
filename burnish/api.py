"""What a notebook calls: the functions behind the command line."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError
from burnish.feedback.spec import FeedbackSpec, FunctionSpec
from burnish.losses.spec import PolicyGradientSpec
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.running.assemble import Parts, assemble
from burnish.running.config import load_recipe, recipe_from_mapping, resolved_yaml
from burnish.running.directory import RunDirectory, fresh_directory
from burnish.running.loop import run_loop, save_policy
from burnish.running.progress import Progress, make_progress
from burnish.studies.evaluation import Evaluation, Measure, compare
from burnish.studies.held_out import HeldOut
from burnish.view.report import write_report


@dataclass(frozen=True)
class RunResult:
    """A finished run: its directory, its summary, its evaluations from first to last."""

    out: Path
    summary: dict[str, Any]
    evaluations: list[Evaluation] = field(default_factory=list, repr=False)


def train(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    reward: Callable[..., Any] | None = None,
    progress: Progress | None = None,
    name: str | None = None,
    base: Path | None = None,
    **keys: Any,
) -> RunResult:
    """Run a recipe: a path to a YAML file, or a Recipe.

    `out` is a new run directory: by default runs/NAME-SEED, numbered when taken, where `name` is the recipe's. `reward`
    is a function `reward(completions, **columns) -> list[float | None]` used in place of the recipe's rewards.
    Further keyword arguments set recipe keys, nested ones with two underscores for the dot: `optimizer__lr=1e-5`.
    Relative paths in a recipe are taken from `base`, the current folder by default. `progress` is a display
    (`burnish.running.progress.make_progress`); by default what suits the terminal. Raises InputError for anything wrong
    in the recipe or the data, and RunError when the run fails or nothing could be trained.
    """
    name = name or ("run" if isinstance(recipe, Recipe) else Path(recipe).stem)
    overrides = [f"{key.replace('__', '.')}={json.dumps(value, default=str)}" for key, value in keys.items()]
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides:
        recipe = recipe_from_mapping(recipe.model_dump(mode="json"), overrides)
    if reward is not None:
        recipe = _with_reward(recipe, reward)
    if out is None:
        directory, made = RunDirectory(fresh_directory(Path("runs"), f"{name}-{recipe.seed}")), True
    else:
        directory, made = RunDirectory.claim(Path(out))
    with ExitStack() as stack:
        shown = progress or stack.enter_context(make_progress("auto"))
        try:
            return _run(_train(recipe, name, directory, shown, base))
        except BaseException:
            directory.give_up(remove=made)
            raise


def _run(work: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run to the end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()


def _with_reward(recipe: Recipe, reward: Callable[..., Any]) -> Recipe:
    """The recipe with a function in place of its rewards, so that the saved configuration names what was used."""
    if not isinstance(recipe, RolloutRecipe):
        raise InputError(f"method {recipe.method!r} learns from demonstrations: it has no use for a reward function")
    return recipe.model_copy(update={"rewards": FeedbackSpec(rewards=(FunctionSpec(function=reward),))})


async def _train(
    recipe: Recipe, name: str, directory: RunDirectory, progress: Progress, base: Path | None
) -> RunResult:
    started = time.perf_counter()
    parts = assemble(recipe, base=base)
    directory.write_config(resolved_yaml(recipe))
    for line in _findings(parts):
        progress.message(line)
    held_out = HeldOut(parts, directory, progress) if recipe.evaluation else None
    progress.start(f"{name}: {recipe.method} on {recipe.model.path}", recipe.steps)
    await run_loop(parts, directory, progress, held_out)
    save_policy(parts, directory, "final")
    evaluations = held_out.found if held_out else []
    summary = _summary(parts, evaluations, time.perf_counter() - started)
    directory.write_summary(summary)
    report = write_report(directory.path)
    if not parts.learner.steps_taken:
        raise RunError(
            f"no optimizer step was taken in {recipe.steps} steps: no token had a weight to train on. Look at the "
            "rewards (missing ones, equal ones), at truncation and at what is masked: " + str(report)
        )
    for line in [*_conclusion(evaluations, recipe.seed), f"report: {report}"]:
        progress.message(line)
    progress.finish({**summary, "report": str(report)})
    return RunResult(directory.path, summary, evaluations)


def _findings(parts: Parts) -> list[str]:
    """What a user should know before the first step."""
    trained = sum(p.numel() for p in parts.learner.masters.parameters.values())
    dtype = str(parts.policy.compute_dtype).removeprefix("torch.")
    lines = [
        f"model: {trained:,} trained parameters, {dtype}; learner: {parts.policy.path_in_use}",
        f"template: {parts.format.finding}",
    ]
    if parts.sampler is not None:
        lines.append(f"engine: {parts.sampler.path_in_use}")
    old = {t.old for p in parts.declaration.controller.phases for t in p.terms if isinstance(t, PolicyGradientSpec)}
    lines += [f"ratios: to the {name}'s log-probabilities of the samples" for name in sorted(old)]
    return lines


def _conclusion(evaluations: list[Evaluation], seed: int) -> list[str]:
    """Accuracy and format rate on the held-out items, before and after, with the paired interval of the difference."""
    if len(evaluations) < 2:
        return []
    lines = []
    measures: tuple[tuple[str, Measure], ...] = (("accuracy", "correct"), ("format rate", "well_formed"))
    for name, measure in measures:
        found = compare(evaluations[0], evaluations[-1], measure, seed=seed)
        lines.append(
            f"held-out {name}: {found.before.estimate:.3f} -> {found.after.estimate:.3f}, difference "
            f"{found.difference.estimate:+.3f}, 95 % interval [{found.difference.low:+.3f}, "
            f"{found.difference.high:+.3f}], {found.items} items"
        )
    return lines


def _summary(parts: Parts, evaluations: list[Evaluation], seconds: float) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "method": parts.recipe.method,
        "steps": parts.recipe.steps,
        "seed": parts.recipe.seed,
        "seconds": round(seconds, 1),
        "optimizer_steps": parts.learner.steps_taken,
        **{f"total/{name}": count for name, count in parts.meter.totals.items()},
    }
    if len(evaluations) >= 2:
        summary["before"], summary["after"] = evaluations[0].summary(), evaluations[-1].summary()
        summary["comparison"] = compare(evaluations[0], evaluations[-1], seed=parts.recipe.seed).to_json()
    return summary
