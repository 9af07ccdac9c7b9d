"""What a notebook calls: the functions behind the command line."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.methods.recipe import Recipe
from burnish.running.assemble import Parts, assemble
from burnish.running.config import load_recipe, recipe_from_mapping, resolved_yaml
from burnish.running.directory import RunDirectory, fresh_directory
from burnish.running.loop import run_loop, save_policy
from burnish.running.progress import Progress, QuietProgress
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
    Relative paths in a recipe are taken from `base`, the current folder by default. Raises InputError for anything
    wrong in the recipe or the data, and RunError when the run fails.
    """
    name = name or ("run" if isinstance(recipe, Recipe) else Path(recipe).stem)
    overrides = [f"{key.replace('__', '.')}={json.dumps(value)}" for key, value in keys.items()]
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides:
        recipe = recipe_from_mapping(recipe.model_dump(mode="json"), overrides)
    directory = fresh_directory(Path("runs"), f"{name}-{recipe.seed}") if out is None else Path(out)
    try:
        return asyncio.run(_train(recipe, name, directory, reward, progress or QuietProgress(), base))
    finally:
        if out is None and not any(directory.iterdir()):
            directory.rmdir()  # the run was refused before it wrote anything


async def _train(
    recipe: Recipe, name: str, out: Path, reward: Callable[..., Any] | None, progress: Progress, base: Path | None
) -> RunResult:
    started = time.perf_counter()
    parts = assemble(recipe, reward=reward, base=base)
    directory = RunDirectory(out)
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
    for line in [*_conclusion(evaluations, recipe.seed), f"report: {report}"]:
        progress.message(line)
    progress.finish({**summary, "report": str(report)})
    return RunResult(directory.path, summary, evaluations)


def _findings(parts: Parts) -> list[str]:
    """What a user should know before the first step."""
    trained = sum(p.numel() for p in parts.learner.masters.parameters.values())
    dtype = str(parts.policy.compute_dtype).removeprefix("torch.")
    lines = [
        f"model: {trained / 1e6:.1f}M trained parameters, {dtype}; learner: {parts.policy.path_in_use}",
        f"template: {parts.format.finding}",
    ]
    if parts.sampler is not None:
        lines.append(f"engine: {parts.sampler.path_in_use}; ratios use the sampler's own log-probabilities")
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
