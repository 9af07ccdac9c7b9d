"""Studies and finished cells made by hand."""

from __future__ import annotations

from typing import Any

from burnish.studies.comparison.series import Key, Series
from burnish.studies.comparison.spec import StudySpec

STUDY: dict[str, Any] = {
    "study": "by-hand",
    "question": "Which is better?",
    "budget": {"unit": "steps", "amount": 10, "beyond": 2},
    "primary": {"metric": "last", "scope": "in", "smallest": 0.02, "control": "plain"},
    "seeds": 3,
    "models": {"S": {"set": {"model.path": "nursery:S"}}},
    "tasks": {
        "left": {"set": {}, "categories": ["l"]},
        "right": {"set": {}, "categories": ["r"]},
    },
    "methods": {"plain": {"recipe": "plain.yaml"}, "new": {"recipe": "new.yaml"}},
    "test": {"evaluation": {}, "category": "side", "points": 2},
}


def by_hand(**changes: Any) -> StudySpec:
    """The study above with some of its keys changed."""
    return StudySpec.model_validate({**STUDY, **changes})


def cell(
    spec: StudySpec, method: str, task: str, seed: int, curves: dict[str, list[float]], off: float | None = None
) -> tuple[Key, Series]:
    """A finished cell with these curves by category, one value for each 5 steps; 1000 tasks a category."""
    count = len(next(iter(curves.values())))
    points = [
        {
            "stage": 1,
            "step": 5 * place,
            "spent": {unit: 5.0 * place * factor for unit, factor in (("steps", 1), ("flops", 10**6), ("seconds", 1),
                      ("sampled_tokens", 3), ("trained_tokens", 4))},
            "right": {name: [round(1000 * curve[place]), 1000] for name, curve in curves.items()},
        }
        for place in range(count)
    ]  # fmt: skip
    values = {
        "method": method, "model": "S", "task": task, "seed": seed, "points": points, "seconds": 1.5,
        "stages": [{"method": "grpo", "steps": 20}], "machine": "a machine, 1 thread",
        "ledger": {"policy": {"prompts": 8, "flops": 100}, "run": {"seconds": 2.0}, "evaluation": {"flops": 7}},
    }  # fmt: skip
    return (method, "S", task, seed), Series(spec, values, off)


def flat_and_rising(spec: StudySpec, new: list[float], plain: list[float]) -> dict[Key, Series]:
    """Cells of both methods on both tasks, whose last values on the trained category are these, seed by seed."""
    found: dict[Key, Series] = {}
    for seed, (better, worse) in enumerate(zip(new, plain, strict=True)):
        for task, own, other in (("left", "l", "r"), ("right", "r", "l")):
            for method, last in (("new", better), ("plain", worse)):
                key, series = cell(
                    spec, method, task, seed, {own: [0.2, 0.3, last], other: [0.2, 0.2, 0.1 + seed / 100]}
                )
                found[key] = series
    return found
