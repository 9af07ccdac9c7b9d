"""What a finished run came to: summary.json, and the lines a person reads at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from burnish.running.assemble import Parts
from burnish.studies.compared import compare
from burnish.studies.evaluation import Evaluation, Measure


def conclusion(evaluations: Sequence[Evaluation], seed: int) -> list[str]:
    """Accuracy and format rate on the held-out items, before and after, with the paired interval of the difference."""
    if len(evaluations) < 2:
        return []
    lines = []
    measures: tuple[tuple[str, Measure], ...] = (
        ("accuracy", "correct"), ("format rate", "well_formed"), ("reward", "reward")
    )  # fmt: skip
    for name, measure in measures:
        if any(evaluation.interval(measure) is None for evaluation in (evaluations[0], evaluations[-1])):
            continue  # that was not judged, or everything is missing
        found = compare(evaluations[0], evaluations[-1], measure, seed=seed)
        lines.append(
            f"held-out {name}: {found.before.estimate:.3f} -> {found.after.estimate:.3f}, difference "
            f"{found.difference.estimate:+.3f}, 95 % interval [{found.difference.low:+.3f}, "
            f"{found.difference.high:+.3f}], {found.items} items"
        )
    return lines


def summary_of(parts: Parts, evaluations: Sequence[Evaluation], seconds: float) -> dict[str, Any]:
    """The contents of summary.json."""
    summary: dict[str, Any] = {
        "method": parts.recipe.method,
        "steps": parts.recipe.steps,
        "seed": parts.recipe.seed,
        "seconds": round(seconds, 1),
        "optimizer_steps": parts.learner.steps_taken,
        "ledger": parts.ledger.to_json(),
    }
    if parts.overlap is not None:
        summary["contamination"] = parts.overlap.to_json()
    if parts.feedback is not None:
        summary["verdicts"] = parts.feedback.counts()
    if len(evaluations) >= 2:
        before, after = evaluations[0], evaluations[-1]
        summary["before"], summary["after"] = before.summary(), after.summary()
        compared: tuple[tuple[str, Measure], ...] = (("comparison", "correct"), ("reward_comparison", "reward"))
        for key, measure in compared:
            if before.interval(measure) is not None and after.interval(measure) is not None:
                summary[key] = compare(before, after, measure, seed=parts.recipe.seed).to_json()
    return summary
