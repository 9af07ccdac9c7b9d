"""A run's held-out evaluation: answers to the same tasks, before, between and after, by the one evaluator."""

from __future__ import annotations

import dataclasses
from typing import Any

from burnish.errors import InputError
from burnish.running.assemble import Parts
from burnish.running.directory import RunDirectory
from burnish.running.progress import Progress
from burnish.studies.acting import evaluate_attempts
from burnish.studies.evaluation import Evaluation, evaluate
from burnish.studies.judging import judged_by
from burnish.studies.measures import results_of


class HeldOut:
    """Evaluates a run's policy on its held-out tasks; of what it found it keeps the first and the last in memory."""

    def __init__(self, parts: Parts, directory: RunDirectory, progress: Progress) -> None:
        spec = parts.recipe.evaluation
        if spec is None or parts.sampler is None:
            raise InputError("a held-out evaluation needs `evaluation` in the recipe")
        self.spec, self.sampler = spec, parts.sampler
        self.parts, self.directory, self.progress = parts, directory, progress
        self.params = spec.sampling.params(parts.format.stop_ids)
        self.ends: list[Evaluation] = []
        """The first evaluation and the last."""

    def restore(self) -> list[str]:
        """Take up what earlier lives of the run found, up to where it is resumed; what a person should know of it."""
        found = [Evaluation.load(path) for path in sorted(self.directory.evaluation("").parent.glob("step-*.json"))]
        told = []
        if not found or found[0].notes.get("step") != 0:
            told.append("the evaluation before the first step is missing: the end cannot be compared with the start")
        alike = [one for one in found if self._comparable(one)]
        if len(alike) < len(found):
            told.append("earlier evaluations were of other items or sampled otherwise: they are not compared with")
        self.ends = [*alike[:1], *alike[-1:]] if len(alike) > 1 else alike
        return told

    def _comparable(self, earlier: Evaluation) -> bool:
        """Whether an evaluation asked what this one will ask."""
        asked = {task.id for task in self.parts.held_out} == {item.task for item in earlier.items}
        drawn = {**dataclasses.asdict(self.params), "stop_ids": sorted(self.params.stop_ids)}
        return asked and earlier.params == drawn and earlier.samples == self.spec.samples

    async def __call__(self, step: int) -> dict[str, float]:
        """Evaluate after `step` steps, write evaluations/step-N.json, and return the shares for the step's record."""
        parts = self.parts
        shared: dict[str, Any] = {
            "name": f"step-{step:06d}",
            "concurrency": self.spec.concurrency,
            "samples_per_task": self.spec.samples,
            "notes": {"step": step, "model_path": parts.recipe.model.path, "template": str(parts.format.finding)},
            "progress": lambda done, total: self.progress.phase("evaluating", done, total),
        }
        if parts.check is None:
            assert parts.trial is not None  # held-out answers are judged by one of the two
            result = await evaluate_attempts(parts.trial, parts.held_out, **shared)
        else:
            result = await evaluate(
                self.sampler,
                parts.held_out,
                render=parts.render,
                text=parts.decode,
                params=self.params,
                judge=judged_by(parts.check),
                seed=parts.recipe.seed,
                ledger=parts.ledger,
                **shared,
            )
            parts.check.feedback.settle()
        with self.directory.writing(f"evaluations/{result.name}.json") as path:
            result.save(path)
        self.ends = [*self.ends[:1], result]
        accuracy, form = result.accuracy, result.format_rate
        return {
            **{f"held_out/{row.metric}": row.value for row in results_of(result)},
            "held_out/accuracy": accuracy.estimate if accuracy else float("nan"),
            "held_out/format_rate": form.estimate if form else float("nan"),
            **{f"held_out/{name}": value for name, value in result.notes.get("components", {}).items()},
        }
