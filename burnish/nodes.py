"""What the nodes of a pipeline do: one function a kind, from a node with its inputs in place to its artefact.

Each goes on where an interrupted execution of the same node stopped.
"""

from __future__ import annotations

import asyncio
import dataclasses
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar, cast

from burnish.api import train
from burnish.errors import RunError
from burnish.feedback.build import build as build_feedback
from burnish.methods.recipe import EvaluationSpec, Recipe
from burnish.models.loading import load_model, resolve
from burnish.models.saving import export
from burnish.models.spec import LoraSpec, ModelSpec
from burnish.running.assemble import format_of
from burnish.running.interrupts import InterruptedRunError, Interrupts
from burnish.running.journal import Journal
from burnish.running.pipelines.choosing import Filter
from burnish.running.pipelines.datasets import Dataset, note_prompt, note_text, text_of
from burnish.running.pipelines.run import Executor, Job, Product
from burnish.running.pipelines.spec import EvaluateSpec, FilterSpec, JudgeSpec, MergeSpec, PartSpec, SampleSpec
from burnish.sampling import LocalEngine
from burnish.sources.context import Context
from burnish.studies.single import evaluate_model
from burnish.tasks import Task, build_tasks
from burnish.traces import Group
from burnish.weights.merging.linear import merge_linear

PROMPTS_PER_PART = 64
"""Prompts sampled between two writes: what an interrupted `sample` node loses at most."""

T = TypeVar("T")


# ---------------------------------------------------------------- train


def run_train(job: Job) -> Product:
    """Run the recipe in the folder `run`, or go on with the run there; an adapter is merged in besides."""
    recipe = cast(Recipe, job.spec)
    # force: the artefact's key says that the recipe is the same, but for the paths of inputs with the same content
    done = train(recipe, out=job.folder / "run", resume=True, force=True, progress=job.progress, name=job.id)
    if not done.summary.get("optimizer_steps"):  # a run that ended so before is returned as it is
        raise RunError(f"no optimizer step was taken in {done.out}: its report tells why; change the recipe")
    final = done.out / "final"
    if recipe.model.adapter is None:
        return Product({"model": final}, _figures(done.summary))
    whole = ModelSpec(path=recipe.model.path, template=recipe.model.template, adapter=LoraSpec(path=str(final)))
    model = export(whole, job.folder / "model", merged=True)
    return Product({"model": model, "adapter": final}, _figures(done.summary))


def _figures(summary: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"steps": summary.get("steps")}
    for when in ("before", "after"):
        accuracy = (summary.get(when) or {}).get("accuracy")
        if accuracy:
            found[f"accuracy {when}"] = accuracy["estimate"]
    return found


# ---------------------------------------------------------------- sample, judge, filter


def run_sample(job: Job) -> Product:
    """Sample every task, part by part."""
    spec, dataset = cast(SampleSpec, job.spec), Dataset(job.folder)
    tasks = build_tasks(spec.data, seed=spec.seed or 0)
    parts = [tasks[start : start + PROMPTS_PER_PART] for start in range(0, len(tasks), PROMPTS_PER_PART)]
    there = set(dataset.parts())
    if len(there) < len(parts):
        model = load_model(spec.model, train=False)
        form = format_of(model, spec.model.template)
        model.tokenizer.save_pretrained(job.folder / "tokenizer")
        sampler = LocalEngine(model, max_rows=spec.engine_rows, deterministic=spec.deterministic)
        context = Context(sampler, form, spec.sampling.params(form.stop_ids), spec.seed or 0)

        def text(tokens: list[int]) -> str:
            while tokens and tokens[-1] in form.stop_ids:
                tokens.pop()
            return model.tokenizer.decode(tokens, skip_special_tokens=True)

        def sample(number: int) -> list[Group]:
            return _alone(lambda: asyncio.run(_sampled(context, parts[number], spec.samples_per_prompt, text)))

        _each(job, "sampling", [n for n in range(len(parts)) if n not in there], len(parts), sample)
    samples = dataset.write_rows()
    return Product({"dataset": job.folder}, {"prompts": len(tasks), "samples": samples})


async def _sampled(context: Context, tasks: list[Task], n: int, text: Callable[[list[int]], str]) -> list[Group]:
    groups = await asyncio.gather(*(context.sample(task, n) for task in tasks))
    for task, group in zip(tasks, groups, strict=True):
        note_prompt(group, task)
        for member in group.members:
            note_text(member, text(member.trace.nodes[member.leaf].tokens.tolist()))
    return list(groups)


def run_judge(job: Job) -> Product:
    """Judge every sample, part by part; answers of foreign code are journalled and not asked for twice."""
    spec = cast(JudgeSpec, job.spec)
    given, dataset = Dataset(Path(spec.data)), Dataset(job.folder)
    there = set(dataset.parts())
    left = [number for number in given.parts() if number not in there]
    journal = Journal(job.folder / "journal.jsonl")
    journal.recall(min(left, default=0))
    feedback = build_feedback(spec.rewards, outside=journal)

    def judge(number: int) -> list[Group]:
        journal.step = number
        groups = given.read(number)
        try:
            _alone(lambda: asyncio.run(feedback.judge(groups, text_of)))
        except RunError:
            journal.note("judging failed", step=number)  # the next time asks anew
            raise
        return groups

    try:
        _each(job, "judging", left, len(given.parts()), judge)
    finally:
        feedback.close()
    _keep_tokenizer(given, dataset)
    dataset.write_rows()
    rewards = [m.reward for number in dataset.parts() for g in dataset.read(number) for m in g.members]
    judged = [reward for reward in rewards if reward == reward]
    figures = {"samples": len(rewards), "missing": len(rewards) - len(judged)}
    return Product({"dataset": job.folder}, {**figures, "reward": sum(judged) / len(judged) if judged else None})


def run_filter(job: Job) -> Product:
    """Keep the samples that the conditions name. Raises RunError when none is left."""
    spec = cast(FilterSpec, job.spec)
    given, dataset, chosen = Dataset(Path(spec.data)), Dataset(job.folder), Filter(spec)
    # from the beginning, since `at_most` counts over all parts, and reading is quick
    for number in given.parts():
        dataset.write(number, chosen.apply(given.read(number)))
    dropped = ", ".join(f"{count} {why}" for why, count in chosen.dropped.most_common())
    if not chosen.kept:
        raise RunError(f"none of the {chosen.seen} samples is left ({dropped}): loosen the conditions of this filter")
    _keep_tokenizer(given, dataset)
    dataset.write_rows()
    return Product(
        {"dataset": job.folder}, {"samples": chosen.seen, "kept": chosen.kept, "dropped": dict(chosen.dropped)}
    )


def _each(job: Job, phase: str, left: list[int], total: int, work: Callable[[int], list[Group]]) -> None:
    """Make and write the parts that are left; asked to stop, finish the part at hand first."""
    dataset = Dataset(job.folder)
    with Interrupts() as interrupts:
        for number in left:
            job.progress.phase(phase, total - len(left) + left.index(number), total)
            dataset.write(number, work(number))
            if interrupts.requested:
                raise InterruptedRunError(f"node {job.id} was interrupted; what is done is kept, run again to go on")
    job.progress.phase(phase, total, total)


def _keep_tokenizer(given: Dataset, dataset: Dataset) -> None:
    """The tokenizer goes along, for `burnish show`."""
    if (given.folder / "tokenizer").is_dir():
        shutil.copytree(given.folder / "tokenizer", dataset.folder / "tokenizer", dirs_exist_ok=True)


# ---------------------------------------------------------------- merge, evaluate


def run_merge(job: Job) -> Product:
    """Average the models; those that are not plain folders are written out as such first."""
    spec = cast(MergeSpec, job.spec)
    aside = job.folder / "whole"
    folders = [_whole_folder(part, aside / str(number)) for number, part in enumerate(spec.models)]
    model = merge_linear(folders, spec.factors, job.folder / "model", dtype=spec.dtype)
    shutil.rmtree(aside, ignore_errors=True)
    return Product({"model": model}, {"models": len(folders), "weights": list(spec.factors)})


def _whole_folder(part: PartSpec, aside: Path) -> Path:
    """A folder with the model's own weights, its adapter merged in; made at `aside` where there is none."""
    place = Path(resolve(part.path))
    if part.adapter is None and place.is_dir():
        return place
    adapter = None if part.adapter is None else LoraSpec(path=part.adapter.path)
    return export(ModelSpec(path=part.path, adapter=adapter), aside, merged=True)


def run_evaluate(job: Job) -> Product:
    """Evaluate the model as `burnish eval` does, and write report.json."""
    spec = cast(EvaluateSpec, job.spec)
    how = EvaluationSpec(data=spec.data, correct=spec.correct, max_tokens=spec.max_tokens, concurrency=spec.concurrency)
    told = job.progress.phase
    found = _alone(
        lambda: evaluate_model(spec.model, how, seed=spec.seed or 0, progress=lambda d, t: told("evaluating", d, t))
    )
    out = job.folder.parent.parent  # a report is the same wherever the pipeline's directory lies
    place = Path(spec.model.path)
    named = place.relative_to(out) if place.is_relative_to(out) else place
    found = dataclasses.replace(found, notes={**found.notes, "model_path": str(named)})
    found.save(job.folder / "report.json")
    figures: dict[str, Any] = {"items": len(found.items)}
    if found.accuracy is not None:
        accuracy = found.accuracy
        figures |= {"accuracy": accuracy.estimate, "low": accuracy.low, "high": accuracy.high}
    return Product({"report": job.folder / "report.json"}, figures)


# ---------------------------------------------------------------- all


def _alone(work: Callable[[], T]) -> T:
    """Do work that starts an event loop, also where one is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(work).result()


EXECUTORS: Mapping[str, Executor] = {
    "train": run_train,
    "sample": run_sample,
    "judge": run_judge,
    "filter": run_filter,
    "merge": run_merge,
    "evaluate": run_evaluate,
}
"""What each kind of node does."""
