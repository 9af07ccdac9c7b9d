"""Which steps store their traces, and the numbers that are stored with them for people alone."""

from __future__ import annotations

from collections.abc import Sequence

from burnish.learning.scoring import score
from burnish.losses.term import Need
from burnish.methods.recipe import Recipe, RolloutRecipe
from burnish.running.assemble import Parts
from burnish.traces import Group


def traces_due(recipe: Recipe, step: int) -> bool:
    """Whether the traces of a step, counted from 1, are stored: every so many from the first on, and the last."""
    return bool(recipe.traces_every) and ((step - 1) % recipe.traces_every == 0 or step == recipe.steps)


def score_traces(parts: Parts, groups: Sequence[Group]) -> None:
    """Write the policy's log-probability and entropy, in nats, on every sampled token, where the recipe asks for them.

    It is the policy before the step's update, under the distribution the token was sampled from. No loss reads these
    signals, `learner_logprob` and `entropy`, so training is the same with and without them. Counted under `traces`.
    """
    recipe = parts.recipe
    if not isinstance(recipe, RolloutRecipe) or not recipe.traces_scores:
        return
    if any(member.counts for group in groups for member in group.members):
        wanted: tuple[Need, Need] = ("policy_logprob", "policy_entropy")
        scored = score(parts.policy, groups, wanted, recipe.learner, ledger=parts.ledger, role="traces")
        scored.write("learner_logprob", "policy_logprob")
        scored.write("entropy", "policy_entropy")
