"""Several evaluations of a model at once: by name, with what training gives away, and against another model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from burnish.environments.registry import build
from burnish.environments.spec import CustomSpec
from burnish.errors import InputError, note
from burnish.models.spec import DtypeName, ModelSpec
from burnish.running.held_apart import looked_at
from burnish.running.keywords import overrides_of
from burnish.running.talk import Named, Speaker, model_spec
from burnish.studies.compared import Comparison, Lift, compare, minimum_lifts
from burnish.studies.evaluation import Evaluation
from burnish.studies.measures import categories_of, metrics_of, results_of
from burnish.studies.naming import Asked, HarnessTask, asked, recipe_of_run, training_tasks
from burnish.studies.single import evaluate_model
from burnish.tasks import Task, build_tasks
from burnish.tasks.overlap import Overlap, overlap
from burnish.traces.files import atomic_write

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Evaluations:
    """What a model did on several tasks; `results` has the numbers."""

    model: str
    found: tuple[Evaluation, ...] = field(repr=False)
    """One for each task, which its name is."""
    contamination: Mapping[str, Overlap] = field(default_factory=dict, repr=False)
    """Task -> what of it is in the training data that was named, or in that of the model's run."""

    def __getitem__(self, task: str) -> Evaluation:
        """The evaluation of a task by its name. Raises KeyError."""
        return {one.name: one for one in self.found}[task]

    def results(self) -> list[dict[str, Any]]:
        """One row a task and metric: {task, n, metric, value, interval, missing, sampling, template}."""
        return [row.to_json() for one in self.found for row in results_of(one)]

    def categories(self) -> list[dict[str, Any]]:
        """The main metric of each category, as rows with `category`."""
        return [row.to_json() for one in self.found for row in categories_of(one)]

    def to_json(self) -> dict[str, Any]:
        """The numbers, without the items."""
        return {
            "model": self.model, "results": self.results(), "categories": self.categories(),
            "contamination": {task: found.to_json() for task, found in self.contamination.items()},
        }  # fmt: skip

    def save(self, path: Path) -> None:
        """Write the numbers and every item as JSON, atomically; `load` reads them back."""
        atomic_write(path, json.dumps({**self.to_json(), "evaluations": [e.to_json() for e in self.found]}) + "\n")

    def __str__(self) -> str:
        """A line for each task and metric, loud about contamination."""
        loud = [f"{task}: {line}" for task, found in self.contamination.items() for line in found.lines()]
        return "\n".join([*loud, *(line for one in self.found for line in _lines(one))])


def _lines(evaluation: Evaluation) -> list[str]:
    lines = []
    for row in results_of(evaluation):
        between = "" if row.interval is None else f"  [{row.interval.low:.4g}, {row.interval.high:.4g}] {row.method}"
        missing = f"  {row.missing} missing" if row.missing else ""
        lines.append(f"{evaluation.name}  {row.metric}: {row.value:.4g}{between}  {row.n} problems{missing}")
    for row in categories_of(evaluation):
        between = "" if row.interval is None else f"  [{row.interval.low:.4g}, {row.interval.high:.4g}]"
        lines.append(f"{evaluation.name}  {row.category}  {row.metric}: {row.value:.4g}{between}  {row.n} problems")
    return lines


def load_evaluations(path: str | Path) -> Evaluations:
    """What `save` wrote, or a single evaluation as a run writes it. Raises InputError for anything else."""
    path = Path(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        if "evaluations" not in values:
            one = Evaluation.load(path)
            return Evaluations(str(one.notes.get("model_path", one.model)), (one,))
        return Evaluations(values["model"], tuple(Evaluation.from_json(one) for one in values["evaluations"]))
    except FileNotFoundError:
        raise InputError(f"{path}: no such evaluation; `burnish eval MODEL --save FILE` writes one") from None
    except (KeyError, TypeError, ValueError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not an evaluation that this version writes ({error!r})") from None


# ---------------------------------------------------------------- evaluating


def evaluate_tasks(
    model: Named,
    tasks: str | Sequence[str],
    overrides: Sequence[str] = (),
    *,
    training_data: Sequence[str | Path] = (),
    seed: int = 0,
    dtype: DtypeName = "auto",
    template: str = "auto",
    progress: Told | None = None,
    **keys: Any,
) -> Evaluations:
    """Evaluate a model on tasks by name: `.results()` has {task, n, metric, value, interval, sampling, template} rows.

    A task is a family or a world (`arithmetic`, `world:grid`), a file of rows with answers, `hub:ID`, a recipe whose
    evaluation it is (`FILE.yaml`), or `lm-eval:NAME`. Further keys are those of `evaluation` in a recipe, for every
    task: `samples=8, temperature=1.0` draws eight answers to each problem. Held-out tasks are looked for in
    `training_data` (run directories, recipes, files of rows) and in that of the run that the model comes from, and what
    is found is in `.contamination`. `model` is a path as in a recipe, or a loaded `Speaker`; the path of a file that
    `Evaluations.save` wrote stands for what it holds. Raises InputError for a task there is not, a model that cannot be
    loaded, a template that cannot be used, and data that cannot be read or judged.
    """
    names = [tasks] if isinstance(tasks, str) else list(tasks)
    if not names:
        raise InputError("no task was named: give --tasks T1,T2")
    if len(set(names)) != len(names):
        raise InputError(f"a task is named twice: {', '.join(names)}")
    wanted = [asked(name, [*overrides, *overrides_of(keys)]) for name in names]
    trained = _trained(model, training_data)
    if not isinstance(model, Speaker):
        rows = max((one.spec.concurrency for one in wanted if isinstance(one, Asked)), default=64)
        spec = model_spec(str(model), dtype=dtype, template=template) if isinstance(model, (str, Path)) else model
        path = spec.path if isinstance(spec, ModelSpec) else spec.name
        speaker = Speaker(spec, max_rows=rows)
    else:
        speaker, path = model, model.model.name
    found, shared = [], {}
    for one in wanted:
        evaluation, asked_of = _evaluated(speaker, one, seed, template, progress)
        evaluation.notes["model_path"] = path
        if trained:
            by = looked_at(one.spec, one.environment) if isinstance(one, Asked) else "text"
            shared[one.name] = overlap(asked_of, trained, by=by)
            evaluation.notes["contamination"] = shared[one.name].to_json()
        found.append(evaluation)
    return Evaluations(str(path), tuple(found), shared)


def _evaluated(
    speaker: Speaker, one: Asked | HarnessTask, seed: int, template: str, progress: Told | None
) -> tuple[Evaluation, list[Task]]:
    """What came of one task, and its problems."""
    if isinstance(one, HarnessTask):
        from burnish.studies.harness import evaluate_harness  # lm-eval is wanted here alone

        return evaluate_harness(speaker, one, seed=seed, template=template, progress=progress)
    evaluation = evaluate_model(
        speaker, one.spec, name=one.name, environment=one.environment, episodes=one.episodes, seed=seed,
        progress=progress,
    )  # fmt: skip
    data = [] if one.spec.data is None else build_tasks(one.spec.data, seed=seed)
    world = one.environment is not None and not isinstance(one.environment, CustomSpec)
    return evaluation, build(one.environment, seed=seed).tasks() if world and one.environment else data


def _trained(model: Named, sources: Sequence[str | Path]) -> list[Task]:
    """The tasks of the named training data, and of the run that the model comes from."""
    found = [task for source in sources for task in training_tasks(source)]
    own = recipe_of_run(model) if isinstance(model, (str, Path)) else None
    if own is None:
        return found
    try:
        return [*found, *training_tasks(own)]
    except InputError as error:
        note(f"contamination was not looked for in the training data of {own.parent}, which cannot be read: {error}")
        return found


# ---------------------------------------------------------------- against another model


@dataclass(frozen=True)
class Against:
    """Two models on the same tasks: paired differences, and the category of each task that gained least."""

    before: str
    after: str
    compared: dict[str, dict[str, Comparison]]
    """Task -> metric -> the difference, after - before."""
    lifts: dict[str, list[Lift]]
    """Task -> for each label that splits its problems the category that gained least."""

    def to_json(self) -> dict[str, Any]:
        """As JSON values: rows of comparisons and of least lifts."""
        return {
            "before": self.before, "after": self.after,
            "differences": [
                {"task": task, "metric": metric, **one.to_json()}
                for task, of_task in self.compared.items() for metric, one in of_task.items()
            ],
            "minimum_category_lift": [
                {"task": task, **lift.to_json()} for task, lifts in self.lifts.items() for lift in lifts
            ],
        }  # fmt: skip

    def __str__(self) -> str:
        """A line for each task and metric, and for each least lift."""
        lines = [f"{self.after} against {self.before}:"]
        for task, of_task in self.compared.items():
            for metric, one in of_task.items():
                d = one.difference
                p = "" if one.p_value is None else f", McNemar p = {one.p_value:.2g}"
                lines.append(
                    f"{task}  {metric}: {one.before.estimate:.4g} -> {one.after.estimate:.4g}, {d.estimate:+.4g} "
                    f"[{d.low:+.4g}, {d.high:+.4g}] {one.method}{p}; {one.improved} better, {one.worsened} worse of "
                    f"{one.items}"
                )
            lines += [
                f"{task}  least lift by {one.label}: {one.category}, {one.lift:+.4g} [{one.low:+.4g}, {one.high:+.4g}]"
                for one in self.lifts[task]
            ]
        return "\n".join(lines)


def against(before: Evaluations, after: Evaluations, *, seed: int = 0) -> Against:
    """Compare two models on the tasks that both were evaluated on.

    Raises InputError where they have no task in common, and where the problems or the sampling of one differ.
    """
    shared = [one.name for one in before.found if any(other.name == one.name for other in after.found)]
    if not shared:
        names = [", ".join(one.name for one in side.found) for side in (before, after)]
        raise InputError(f"the two have no task in common: {names[0]}; and {names[1]}")
    compared, lifts = {}, {}
    for task in shared:
        one, two = before[task], after[task]
        metrics = [metric for metric in metrics_of(one) if metric in metrics_of(two)]
        compared[task] = {metric: compare(one, two, metric, seed=seed) for metric in metrics}
        lifts[task] = minimum_lifts(one, two, seed=seed)
    return Against(before.model, after.model, compared, lifts)
