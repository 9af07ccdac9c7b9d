"""Tasks of lm-eval (the Language Model Evaluation Harness), asked through its library and judged by it.

The library is an extra, `pip install 'burnish[lm-eval]'`, and is imported when such a task is asked for. Its tasks
bring their own prompts, metrics and filters; the model is ours. What comes of a document is an item with the harness's
own scores, so that intervals over problems and paired comparisons are those of any other evaluation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from burnish.errors import InputError
from burnish.running.talk import Speaker
from burnish.studies.evaluation import SCORED, Evaluation, Item
from burnish.studies.naming import HarnessTask
from burnish.tasks import Task
from burnish.tasks.faults import Place
from burnish.tasks.suggest import did_you_mean

Told = Callable[[int, int], None]
MEAN = ("mean", "nanmean")


def evaluate_harness(
    speaker: Speaker, asked: HarnessTask, *, seed: int = 0, template: str = "auto", progress: Told | None = None
) -> tuple[Evaluation, list[Task]]:
    """One task of lm-eval: an evaluation with an item for each document, and the documents as tasks.

    A task that lm-eval knows by name, or a YAML file of the user's. The chat template is applied where the model has
    one, unless `template` is "plain". Every filter's scores are kept, those of a named filter as "metric,filter".
    Metrics that are no mean over documents (perplexities, BLEU) are in `notes["aggregates"]`, with lm-eval's standard
    error.
    Raises InputError for a task there is not, a group, and data that cannot be read.
    """
    from lm_eval import evaluator

    from burnish.studies.harness_model import HarnessModel

    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    chat = template != "plain" and bool(speaker.model.tokenizer.chat_template)
    model = HarnessModel(speaker, seed=seed, progress=progress)
    with _told(asked):
        task = _loaded(asked)
        found: Any = evaluator.simple_evaluate(
            model, tasks=[task], limit=asked.limit, apply_chat_template=chat, task_manager=_manager(),
            bootstrap_iters=1000, random_seed=seed, numpy_random_seed=seed, torch_random_seed=seed,
            fewshot_random_seed=seed,
        )  # fmt: skip
    [name] = found["samples"]
    return _evaluation(asked, name, found, model, chat, seed), _tasks(task, found["samples"][name])


@contextmanager
def _told(asked: HarnessTask) -> Iterator[None]:
    """What lm-eval and `datasets` raise for a task that cannot be read or asked, as an InputError."""
    try:
        yield
    except (OSError, ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"{asked.name}: lm-eval could not ask it ({type(error).__name__}: {error}); its data must be in local "
            "files, or in the cache of `datasets`"
        ) from error


def _manager(*, defaults: bool = False) -> Any:
    """lm-eval's index of tasks; its own are looked through only where one of them is asked for."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_defaults=defaults)


def _loaded(asked: HarnessTask) -> Any:
    """The task itself, with its data. Raises InputError for a file or a name there is not, and for a group."""
    path = Path(asked.task).expanduser()
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise InputError(f"{asked.name}: there is no file {path}")
        manager, name = _manager(), str(path)
    else:
        manager, name = _manager(defaults=True), asked.task
        if name not in manager.all_tasks:
            raise InputError(f"lm-eval has no task {name!r}; {did_you_mean(name, manager.all_subtasks)}")
        if name not in manager.all_subtasks:
            raise InputError(f"{asked.name} is a group of lm-eval's tasks: name those that you want")
    tasks = list(manager.load([name])["tasks"].values())
    if len(tasks) != 1:
        names = ", ".join(sorted(task.task_name for task in tasks))
        raise InputError(f"{asked.name} is a group of lm-eval's, of the tasks {names}: name those that you want")
    return tasks[0]


def _evaluation(
    asked: HarnessTask, task: str, found: Mapping[str, Any], model: Any, chat: bool, seed: int
) -> Evaluation:
    documents: dict[int, list[Mapping[str, Any]]] = {}
    for sample in found["samples"][task]:
        documents.setdefault(sample["doc_id"], []).append(sample)
    config = found["configs"][task]
    means = {
        entry["metric"] if isinstance(entry["metric"], str) else entry["metric"].__name__: entry.get("aggregation")
        for entry in config.get("metric_list", ())
    }
    scalar = [name for name, how in means.items() if how in (None, *MEAN)]
    items = tuple(_item(task, number, alike, model, scalar) for number, alike in documents.items())
    kept = {name for item in items for name in item.scores}
    asking = {key: config.get(key) for key in ("output_type", "num_fewshot", "generation_kwargs", "repeats")}
    limits = config.get("generation_kwargs") or {}
    return Evaluation(
        name=asked.name, model=model.speaker.engine.name, version=model.speaker.engine.version,
        params={**asking, "temperature": float(limits.get("temperature") or 0.0), "chat_template": chat},
        seed=seed, items=items,
        notes={
            "template": f"lm-eval's prompt of {task}, " + (
                str(model.speaker.format.finding) if chat else "as it stands, without a chat template"
            ),
            "lm_eval": found.get("lm_eval_version"), "task_version": found["versions"].get(task),
            "aggregates": _aggregates(found["results"][task], kept),
        },
    )  # fmt: skip


def _item(task: str, number: int, samples: Iterable[Mapping[str, Any]], model: Any, means: list[str]) -> Item:
    """A document: its scores under every filter, the first filter's answer."""
    samples = list(samples)
    first = samples[0]
    scores: dict[str, float] = {}
    for sample in samples:
        for metric in sample["metrics"]:
            value = sample[metric]
            if metric in means and isinstance(value, (bool, int, float)):
                scores[_named(metric, sample["filter"])] = float(value)
    prompt = str(first["arguments"][0][0])
    drawn = model.drawn.get((prompt, repr(first["arguments"][0][1:])))
    answer = first["filtered_resps"][0]
    return Item(
        task=f"{task}-{number}-{first['doc_hash'][:12]}", sample=0, prompt=prompt,
        text=drawn.text if drawn else repr(answer), tokens=drawn.tokens if drawn else (),
        length=len(drawn.tokens) if drawn else 0, finish=drawn.finish if drawn else SCORED,
        expected=str(first["target"]), scores=scores,
    )  # fmt: skip


def _named(metric: str, filter_name: str) -> str:
    return metric if filter_name == "none" else f"{metric},{filter_name}"


def _aggregates(results: Mapping[str, Any], kept: set[str]) -> dict[str, dict[str, float | None]]:
    """What lm-eval makes of all documents together, of metrics that no document has alone."""
    found = {}
    for key, value in results.items():
        metric, _, filter_name = key.partition(",")
        name = _named(metric, filter_name)
        if not filter_name or metric.endswith("_stderr") or name in kept or not isinstance(value, (int, float)):
            continue
        error = results.get(f"{metric}_stderr,{filter_name}")
        found[name] = {"value": float(value), "stderr": error if isinstance(error, (int, float)) else None}
    return found


def _tasks(task: Any, samples: Iterable[Mapping[str, Any]]) -> list[Task]:
    """The documents with their answers, without what a template or examples put around them."""
    found = {}
    for sample in samples:
        place = Place(f"lm-eval:{task.task_name}", "document", int(sample["doc_id"]) + 1)
        number = f"{task.task_name}-{sample['doc_id']}-{sample['doc_hash'][:12]}"
        prompt = str(task.doc_to_text(sample["doc"])) or str(sample["target"])
        found[number] = Task(prompt=prompt, answer=str(sample["target"]), id=number, place=place)
    return list(found.values())
