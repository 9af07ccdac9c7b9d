"""What a notebook calls: the functions behind the command line."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.errors import InputError, RunError, notes_told
from burnish.feedback.spec import FeedbackSpec, FunctionSpec
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.running.assemble import Parts, assemble
from burnish.running.config import load_recipe, recipe_from_mapping, resolved_yaml
from burnish.running.determinism import computing
from burnish.running.directory import RunDirectory, fresh_directory, newest_directory
from burnish.running.environment import differences, environment
from burnish.running.findings import findings
from burnish.running.heartbeat import Heartbeat, Watched
from burnish.running.interrupts import Interrupts
from burnish.running.journal import Journal
from burnish.running.loop import Run, run_loop, save_policy
from burnish.running.pipelines.contents import recipe_contents
from burnish.running.progress import Progress, make_progress
from burnish.running.resume import Resumption, go_back, resumption
from burnish.running.stateful import restore
from burnish.running.yamlfile import parse_yaml
from burnish.studies.evaluation import Evaluation
from burnish.studies.held_out import HeldOut
from burnish.studies.summary import conclusion, summary_of
from burnish.tracking.trackers import Trackers
from burnish.view.report import write_report


@dataclass(frozen=True)
class RunResult:
    """A finished run: its directory, its summary, its evaluations from first to last."""

    out: Path
    summary: dict[str, Any]
    evaluations: list[Evaluation] = field(default_factory=list, repr=False)


@dataclass(frozen=True)
class _Order:
    """What `train` was asked for, once everything is resolved."""

    recipe: Recipe
    name: str
    base: Path | None
    force: bool
    progress: Progress
    interrupts: Interrupts
    heartbeat: Heartbeat


def train(
    recipe: str | Path | Recipe,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
    reward: Callable[..., Any] | None = None,
    progress: Progress | None = None,
    name: str | None = None,
    base: Path | None = None,
    **keys: Any,
) -> RunResult:
    """Run a recipe: a path to a YAML file, or a Recipe.

    `out` is a new run directory: by default runs/NAME-SEED, numbered when taken, where `name` is the recipe's. With
    `resume` the run in `out` (by default the newest runs/NAME-SEED) goes on from its newest checkpoint, or begins when
    there is none yet; a recipe that has changed since is refused unless `force`. `reward` is a function
    `reward(completions, **columns) -> list[float | None]` used in place of the recipe's rewards. Further keyword
    arguments set recipe keys, nested ones with two underscores for the dot: `optimizer__lr=1e-5`. Relative paths in a
    recipe are taken from `base`, the current folder by default. `progress` is a display
    (`burnish.running.progress.make_progress`); by default what suits the terminal.

    Raises InputError for anything wrong in the recipe, the data or the directory, RunError when the run fails, a guard
    stops it or nothing could be trained, and its subclass InterruptedRunError when asked to stop by Ctrl-C or SIGTERM:
    the step is finished and a checkpoint saved first. A second Ctrl-C raises KeyboardInterrupt at once.
    """
    name = name or ("run" if isinstance(recipe, Recipe) else Path(recipe).stem)
    overrides = [f"{key.replace('__', '.')}={json.dumps(value, default=str)}" for key, value in keys.items()]
    if not isinstance(recipe, Recipe):
        recipe = load_recipe(recipe, overrides)
    elif overrides:
        recipe = recipe_from_mapping(recipe.model_dump(mode="json"), overrides)
    if reward is not None:
        recipe = _with_reward(recipe, reward)
    if force and not resume:
        raise InputError("force is for resuming a run whose recipe has changed: add resume (--resume), or remove it")
    directory, made = _directory(recipe, name, None if out is None else Path(out), resume)
    begun = directory.holds_run
    with ExitStack() as stack:
        stack.callback(directory.close)
        shown = progress or stack.enter_context(make_progress("auto"))
        stack.enter_context(notes_told(shown.message))
        interrupts = stack.enter_context(Interrupts())
        beating = Heartbeat(directory.path, stall_seconds=recipe.guards.stall_seconds, tell=shown.message)
        try:
            with beating as heartbeat:
                return _run(_train(_Order(recipe, name, base, force, shown, interrupts, heartbeat), directory))
        except BaseException:
            if not begun:
                directory.give_up(remove=made)
            raise


def _directory(recipe: Recipe, name: str, out: Path | None, resume: bool) -> tuple[RunDirectory, bool]:
    """The run's directory, and whether it was made just now."""
    called, parent = f"{name}-{recipe.seed}", Path("runs")
    if out is None:
        out = (newest_directory(parent, called) if resume else None) or fresh_directory(parent, called)
        made = not any(out.iterdir())
        return (RunDirectory.reopen if resume else RunDirectory.claim)(out)[0], made
    return (RunDirectory.reopen if resume else RunDirectory.claim)(out)


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


async def _train(order: _Order, directory: RunDirectory) -> RunResult:
    started = time.perf_counter()
    recipe, progress = order.recipe, order.progress
    earlier = resumption(directory, recipe, force=order.force, base=order.base) if directory.holds_run else None
    if earlier is not None and directory.finished and not earlier.changed:
        return _finished(directory, progress)
    progress = Watched(progress, order.heartbeat, earlier.step if earlier else 0)
    journal = Journal(directory.path / "journal.jsonl")
    if earlier is not None and recipe.model.dtype == "auto":
        # what was measured when the run began is not measured again: it might come out otherwise
        pinned = recipe.model.model_copy(update={"dtype": earlier.identity["dtype"]})
        recipe = recipe.model_copy(update={"model": pinned})
    with (
        computing(recipe),
        Trackers(recipe.trackers, progress.message) as trackers,
        closing(assemble(recipe, base=order.base, outside=journal)) as parts,
    ):
        if earlier is not None and earlier.checkpoint is not None:
            restore(parts, earlier.checkpoint)  # a checkpoint of another model is refused before anything is written
        identity = _begin(order, directory, journal, parts, earlier)
        held_out = HeldOut(parts, directory, progress) if recipe.evaluation else None
        run = Run(parts, directory, journal, progress, order.interrupts, trackers, identity, held_out)
        if earlier is not None:
            _take_up(run, held_out, earlier)
        for line in findings(parts):
            progress.message(line)
        settings = parse_yaml(resolved_yaml(order.recipe), "recipe")[0]
        trackers.start(directory.path.resolve().name, settings, directory.path / "trackers", resume_step=run.step)
        progress.start(f"{order.name}: {recipe.method} on {recipe.model.path}", recipe.steps)
        before = parts.ledger.total("run", "seconds")
        await run_loop(run)
        return _conclude(run, held_out, before + time.perf_counter() - started)


def _begin(
    order: _Order, directory: RunDirectory, journal: Journal, parts: Parts, earlier: Resumption | None
) -> dict[str, Any]:
    """Write down what runs, or that it goes on; what every checkpoint notes about the run."""
    now = environment(parts.policy.device)
    if earlier is None:
        dtype = str(parts.policy.compute_dtype).removeprefix("torch.")
        contents = recipe_contents(order.recipe, order.base)
        run = {"run": uuid.uuid4().hex, "dtype": dtype, "environment": now, "contents": contents}
        directory.write_json("run.json", run)
        directory.write_config(resolved_yaml(order.recipe))
        journal.note("started", steps=order.recipe.steps, environment=now)
        if parts.overlap is not None and parts.overlap.hits:
            journal.note("contaminated", **parts.overlap.to_json())
        return {"run": run["run"], "environment": now}
    before = earlier.checkpoint.manifest["environment"] if earlier.checkpoint else earlier.identity["environment"]
    for line in earlier.messages:
        order.progress.message(line)
    if unlike := differences(before, now):
        order.progress.message(f"this resume is not bit-equal to a run never stopped: {', '.join(unlike)}")
    if earlier.changed:
        directory.write_config(resolved_yaml(order.recipe))
        directory.write_json("run.json", {**earlier.identity, "contents": recipe_contents(order.recipe, order.base)})
    journal.note("resumed", step=earlier.step, environment=now, changed=earlier.changed, not_bit_equal=unlike)
    return {"run": earlier.identity["run"], "environment": now}


def _take_up(run: Run, held_out: HeldOut | None, earlier: Resumption) -> None:
    """Go on behind the checkpoint, with what was recorded after it out of the way."""
    run.step = earlier.step
    # without a checkpoint everything is done anew, the evaluation before the first step too
    moved = go_back(run.directory, run.step if earlier.checkpoint else -1)
    if not earlier.changed:  # a changed run asks anew
        run.journal.recall(run.step)
    if held_out is not None:
        for line in held_out.restore():
            run.progress.message(line)
    run.progress.message(f"resumed after step {run.step}" + (f"; {moved}" if moved else ""))


def _conclude(run: Run, held_out: HeldOut | None, seconds: float) -> RunResult:
    """The final model, the summary, the report."""
    parts, directory, recipe = run.parts, run.directory, run.parts.recipe
    run.progress.phase("saving", 0, 1)
    save_policy(parts, directory, "final")
    evaluations = held_out.ends if held_out else []
    summary = summary_of(parts, evaluations, seconds)
    directory.sync_metrics()
    directory.write_summary(summary)
    run.trackers.finish(summary)
    run.journal.note("finished", step=run.step)
    with directory.writing("report.html"):
        report = write_report(directory.path)
    run.progress.phase("saving", 1, 1)
    _check_trained(summary, report)
    for line in [
        *conclusion(evaluations, recipe.seed),
        *parts.ledger.lines(),
        f"report: {directory.named / report.name}",
    ]:
        run.progress.message(line)
    run.progress.finish({**summary, "report": str(directory.named / report.name)})
    return RunResult(directory.named, summary, _evaluations(directory.path))


def _evaluations(run: Path) -> list[Evaluation]:
    return [Evaluation.load(file) for file in sorted((run / "evaluations").glob("step-*.json"))]


def _check_trained(summary: dict[str, Any], report: Path) -> None:
    """Raise RunError for a run that came to its end without having trained anything."""
    if not summary["optimizer_steps"]:
        raise RunError(
            f"no optimizer step was taken in {summary['steps']} steps: no token had a weight to train on. Look at the "
            f"rewards (missing ones, equal ones), at truncation and at what is masked: {report}"
        )


def _finished(directory: RunDirectory, progress: Progress) -> RunResult:
    """A run that is over already, as it was."""
    path = directory.path
    if not (path / "report.html").exists():
        write_report(path)
    progress.message(f"{directory.named} is a finished run: there is nothing to resume")
    summary = json.loads((path / "summary.json").read_text("utf-8"))
    _check_trained(summary, path / "report.html")
    return RunResult(directory.named, summary, _evaluations(path))
