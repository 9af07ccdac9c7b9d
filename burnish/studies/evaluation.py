"""One evaluator: the same items, the same sampling, accuracy and format apart, every number with its interval.

It knows nothing of models or templates: it is handed a sampler and plain functions. What was asked and how it was
sampled is stored beside the numbers, and two evaluations are compared only when that is the same.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from burnish.errors import InputError
from burnish.ledger import Ledger
from burnish.sampling.protocol import Completion, Sampler, SamplingParams, count_samples
from burnish.studies.intervals import mean_interval
from burnish.studies.statistics import Interval
from burnish.tasks import Task
from burnish.traces.files import atomic_write

Measure = Literal["correct", "well_formed", "reward"]

SCORED = "scored"
"""In place of how an answer ended: nothing was sampled, given answers were scored."""
_CONFIDENCE = 0.95
_SHOWN_AS: tuple[tuple[str, Measure], ...] = (
    ("accuracy", "correct"),
    ("format_rate", "well_formed"),
    ("reward", "reward"),
)


@dataclass(frozen=True)
class Item:
    """One sampled answer to one task. None: that was not judged, or is missing."""

    task: str
    sample: int
    prompt: str
    text: str
    tokens: tuple[int, ...]
    length: int
    finish: str
    expected: str | None = None
    correct: bool | None = None
    well_formed: bool | None = None
    reward: float | None = None
    surprisal: float | None = None
    """Mean of -log p of its tokens in nats, under the distribution that was sampled from. Of drawn tokens it estimates
    the entropy of that distribution; greedy ones are chosen, and their log-probabilities are the model's own."""
    scores: dict[str, float] = field(default_factory=dict)
    """Further metrics of this answer by name, as lm-eval's tasks have them."""
    labels: dict[str, str] = field(default_factory=dict)
    """What categories the task belongs to: its domain, its difficulty, columns such as `level`."""


@dataclass(frozen=True)
class Judgement:
    """What an answer is worth. None: that was not judged, or is missing."""

    correct: bool | None = None
    well_formed: bool | None = None
    reward: float | None = None


Judge = Callable[[Task, list[str]], Coroutine[Any, Any, Sequence[Judgement]]]
"""Judges the answers to one task."""


@dataclass(frozen=True)
class Evaluation:
    """What a model did on a set of tasks, item by item, and how it was asked."""

    name: str
    model: str
    version: int
    params: dict[str, Any]
    seed: int
    items: tuple[Item, ...] = field(repr=False)
    notes: dict[str, Any] = field(default_factory=dict)
    """What else tells how the number came about, such as the template and the path of the model."""

    def values(self, measure: Measure) -> dict[str, float]:
        """Mean over the samples of each task that has a value, task id -> mean."""
        found: dict[str, list[float]] = {}
        for item in self.items:
            value = getattr(item, measure)
            if value is not None:
                found.setdefault(item.task, []).append(float(value))
        return {task: float(np.mean(values)) for task, values in found.items()}

    def interval(self, measure: Measure) -> Interval | None:
        """Share or mean with its 95 % interval, tasks being clusters (`statistics.mean_interval` says of which kind).

        None when nothing was judged, and where one task alone tells nothing of a spread.
        """
        judged = [(item.task, float(v)) for item in self.items if (v := getattr(item, measure)) is not None]
        if not judged:
            return None
        tasks, values = zip(*judged, strict=True)
        return mean_interval(values, tasks, confidence=_CONFIDENCE, seed=self.seed)[0]

    @property
    def samples(self) -> int:
        """Answers to each task."""
        return max((item.sample for item in self.items), default=0) + 1

    @property
    def accuracy(self) -> Interval | None:
        """Share of right answers."""
        return self.interval("correct")

    @property
    def format_rate(self) -> Interval | None:
        """Share of answers in the form that was asked for, right or wrong."""
        return self.interval("well_formed")

    @property
    def mean_length(self) -> float:
        """Mean tokens of an answer, the stop token included; 0 where given answers were scored."""
        return float(np.mean([item.length for item in self.items]))

    @property
    def truncated(self) -> float:
        """Share of answers that did not end by themselves."""
        return float(np.mean([item.finish not in ("stop", SCORED) for item in self.items]))

    def missing(self, measure: Measure) -> int:
        """Answers without a value; they are left out of the shares, never counted as wrong."""
        return sum(getattr(item, measure) is None for item in self.items)

    def summary(self) -> dict[str, Any]:
        """The numbers as JSON values."""
        shown: dict[str, Any] = {"items": len(self.items)}
        for key, measure in _SHOWN_AS:
            interval = self.interval(measure)
            shown[key] = None if interval is None else dataclasses.asdict(interval)
            if interval is not None and self.missing(measure):
                shown[f"{key}_missing"] = self.missing(measure)
        return {**shown, "mean_length": self.mean_length, "truncated": self.truncated}

    def __str__(self) -> str:
        """Accuracy and format rate in per cent with their intervals, then lengths."""
        lines = [
            f"{label}: {100 * i.estimate:.1f} % (95 %: {100 * i.low:.1f} to {100 * i.high:.1f})"
            for label, i in (("accuracy", self.accuracy), ("right format", self.format_rate))
            if i is not None
        ]
        length = f"mean length {self.mean_length:.1f} tokens, {100 * self.truncated:.1f} % cut off"
        return "\n".join([*lines, f"{len(self.items)} items, {length}"])

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values; `from_json` reads it back equal."""
        return {**dataclasses.asdict(self), "summary": self.summary()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Evaluation:
        """Raises KeyError or TypeError when these are not the values of an evaluation."""
        items = tuple(Item(**{**item, "tokens": tuple(item["tokens"])}) for item in values["items"])
        rest = {f.name: values[f.name] for f in dataclasses.fields(cls) if f.name != "items"}
        return cls(**rest, items=items)

    def save(self, path: Path) -> None:
        """Write as JSON, one item a line, atomically."""
        values = self.to_json()
        items = ",\n".join(json.dumps(item, ensure_ascii=False) for item in values.pop("items"))
        head = json.dumps(values, ensure_ascii=False, indent=1).removesuffix("\n}")
        atomic_write(path, f'{head},\n "items": [\n{items}\n]}}\n')

    @classmethod
    def load(cls, path: Path) -> Evaluation:
        """Raises InputError when the file is missing or is no evaluation."""
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise InputError(f"{path}: no such evaluation; a run writes its own to evaluations/") from None
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: not an evaluation that this version writes ({error!r})") from None


async def evaluate(
    sampler: Sampler,
    tasks: Sequence[Task],
    *,
    render: Callable[[Task], Sequence[int]],
    text: Callable[[Sequence[int]], str],
    params: SamplingParams,
    judge: Judge,
    name: str = "evaluation",
    seed: int = 0,
    samples_per_task: int = 1,
    concurrency: int = 64,
    notes: dict[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    ledger: Ledger | None = None,
) -> Evaluation:
    """Sample and judge every task, `concurrency` tasks at a time.

    `render` makes prompt ids of a task, `text` makes text of completion ids. Give greedy parameters
    (`temperature=0`, see `greedy`) unless several samples are wanted. `progress` is told (done, of how many).
    A `ledger` counts the samples under the role evaluation; `judge` has to count its own calls.
    Raises InputError when there is nothing to evaluate, a task comes twice, or greedy samples would all be alike.
    """
    if not tasks:
        raise InputError("nothing to evaluate: the list of tasks is empty")
    if len({task.id for task in tasks}) != len(tasks):
        raise InputError("a task is in the evaluation twice; its items would not be independent: remove repeated rows")
    if samples_per_task > 1 and params.temperature == 0:
        raise InputError(f"{samples_per_task} greedy samples of a task are all alike; set a temperature or sample once")
    slots = asyncio.Semaphore(concurrency)
    ledger = ledger or Ledger()
    done = 0

    async def one(task: Task) -> list[Item]:
        nonlocal done
        async with slots:
            drawn = await sampler.sample(list(render(task)), params, n=samples_per_task, seed=seed, task=task.number)
            count_samples(ledger, "evaluation", drawn)
            for completion in drawn:
                if completion.session is not None:
                    sampler.release(completion.session)
            answers = [text(completion.tokens.tolist()) for completion in drawn]
            judged = await judge(task, answers)
        done += 1
        if progress:
            progress(done, len(tasks))
        return [
            _item(task, i, completion, answer, judgement)
            for i, (completion, answer, judgement) in enumerate(zip(drawn, answers, judged, strict=True))
        ]

    running = [asyncio.ensure_future(one(task)) for task in tasks]
    try:
        with ledger.timed("evaluation"):
            found = await asyncio.gather(*running)
    finally:
        for task in running:
            task.cancel()  # one has raised: the others have no taker
    return Evaluation(
        name=name,
        model=sampler.name,
        version=sampler.version,
        params={**dataclasses.asdict(params), "stop_ids": sorted(params.stop_ids)},
        seed=seed,
        items=tuple(item for items in found for item in items),
        notes=dict(notes or {}),
    )


def greedy(max_tokens: int, stop_ids: frozenset[int]) -> SamplingParams:
    """The parameters of a default evaluation: the most probable token, always."""
    return SamplingParams(max_tokens=max_tokens, temperature=0.0, stop_ids=stop_ids)


def _item(task: Task, sample: int, completion: Completion, answer: str, judgement: Judgement) -> Item:
    return Item(
        task=task.id,
        sample=sample,
        prompt=task.text,
        text=answer,
        tokens=tuple(completion.tokens.tolist()),
        length=len(completion.tokens),
        finish=completion.finish,
        expected=task.answer,
        surprisal=surprisal([completion.logprobs]),
        labels=labels_of(task),
        **dataclasses.asdict(judgement),
    )


def surprisal(logprobs: Sequence[npt.NDArray[np.floating[Any]]]) -> float | None:
    """Mean of -log p over the tokens of an answer, in pieces [T] each; None where there are none."""
    count = sum(len(piece) for piece in logprobs)
    return -float(sum(np.sum(piece, dtype=np.float64) for piece in logprobs)) / count if count else None


_LABELS = ("domain", "category", "level", "subject", "type")


def labels_of(task: Task) -> dict[str, str]:
    """The categories of a task: its domain, its difficulty, and the columns of its row that have such names."""
    found = {} if not task.domain else {"domain": task.domain}
    if task.difficulty is not None:
        found["difficulty"] = f"{task.difficulty:g}"
    for name in _LABELS:
        value = task.columns.get(name)
        if isinstance(value, (str, int, float)) and 0 < len(str(value)) <= 80:
            found.setdefault(name, str(value))
    return found
