"""Who was trained against who was sampled: every stored token by author and role, and whether it carries a weight.

A policy gradient on a token that the policy did not sample is no gradient of its return (promise E7); a weight on a
prompt teaches the model its own prompts.
"""

from __future__ import annotations

import numpy as np

from burnish.studies.audits.finding import Figure, Finding, UnmeasuredError, graded
from burnish.studies.audits.reading import RunFiles
from burnish.studies.audits.tally import Tally
from burnish.traces import AuthorKind, Role

NAME = "authors"
RULE = (
    "fault: any policy-gradient weight on a token that the policy did not sample, or any weight on a prompt; look: "
    "less than half of the model's tokens carry a weight, an environment's tokens carry one, or tokens are more than "
    "one weight version old on average"
)
CANNOT = (
    "It goes by the authors that the traces record: it does not see a model that copies its prompt into its answer, "
    "and a program that records a wrong author deceives it."
)


def authors(run: RunFiles, tally: Tally) -> Finding:
    """The audit. Raises UnmeasuredError when no traces are stored."""
    total = sum(tally.tokens.values())
    if not total:
        raise UnmeasuredError("no traces are stored (traces_every stores them)")
    kinds = {kind.value: _counts(tally, kind) for kind in AuthorKind}
    sampled, trained, moved = kinds[AuthorKind.MODEL.value]
    prompts = sum(
        n for (kind, _, role, use), n in tally.tokens.items()
        if use and kind == AuthorKind.CONTEXT and role in (Role.PROMPT, Role.TASK)
    )  # fmt: skip
    lag = _lag(tally)
    figures = [
        Figure("foreign_policy_weights", float(tally.foreign), over="tokens, of all stored"),
        Figure("prompt_weights", float(prompts), over="tokens"),
        Figure(
            "model_tokens_weighted", trained / sampled if sampled else float("nan"), over=f"{sampled} sampled tokens"
        ),
        Figure("model_tokens_moved", moved / sampled if sampled else float("nan"), over="weight other than 0"),
        Figure("weight_versions_old", lag, over="mean age of a sampled token, newest of its step as 0"),
    ]
    for name, (count, weighted, _) in kinds.items():
        figures.append(Figure(f"{name}_share", count / total, over=f"of {total} stored tokens"))
        figures.append(Figure(f"{name}_weighted", float(weighted), over="tokens with a weight"))
    for (kind, name, role), count in sorted(_by_role(tally).items()):
        who = f"{kind}:{name}" if name else kind
        figures.append(Figure(f"weighted {who} as {role}", float(count), over="tokens with a weight"))
    environment = kinds[AuthorKind.ENVIRONMENT.value][1]
    level = graded(
        fault=tally.foreign > 0 or prompts > 0,
        look=(sampled > 0 and trained / sampled < 0.5) or environment > 0 or lag > 1,
    )
    weights = ", ".join(f"{weighted} of {count} {name}" for name, (count, weighted, _) in kinds.items() if count)
    says = f"tokens with a weight: {weights}; {tally.foreign} policy-gradient weights on tokens of others"
    return Finding(NAME, level, says, RULE, CANNOT, tuple(figures))


def _counts(tally: Tally, kind: AuthorKind) -> tuple[int, int, int]:
    """Tokens of a kind of author: all, with a weight, with one other than 0."""
    of = [(use, n) for (k, _, _, use), n in tally.tokens.items() if k == kind.value]
    return (
        sum(n for _, n in of), sum(n for use, n in of if use), sum(n for use, n in of if use and "zero" not in use)
    )  # fmt: skip


def _by_role(tally: Tally) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for (kind, name, role, use), count in tally.tokens.items():
        if use:
            found[kind, name, role] = found.get((kind, name, role), 0) + count
    return found


def _lag(tally: Tally) -> float:
    """Mean age in weight versions of the sampled tokens; the newest version among a step's tokens has age 0."""
    if not tally.versions:
        return 0.0
    newest: dict[int, int] = {}
    for step, version, _ in tally.versions:
        newest[step] = max(version, newest.get(step, version))
    ages = np.array([newest[step] - version for step, version, _ in tally.versions], dtype=float)
    return float(np.average(ages, weights=[count for _, _, count in tally.versions]))
