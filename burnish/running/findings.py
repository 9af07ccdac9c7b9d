"""What a user should know before the first step."""

from __future__ import annotations

from burnish.losses.spec import PolicyGradientSpec
from burnish.running.assemble import Parts
from burnish.running.contradictions import beyond_the_run
from burnish.running.estimate import estimate


def findings(parts: Parts) -> list[str]:
    """Lines about the model, its template, the engine, the ratios and the memory of a run."""
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
    lines += beyond_the_run(parts.recipe)
    memory = estimate(parts)
    lines += [f"data: {line}" for line in parts.told]
    lines += [] if parts.overlap is None else parts.overlap.lines()
    return lines + [line for line in (memory.line(), memory.warning()) if line]
