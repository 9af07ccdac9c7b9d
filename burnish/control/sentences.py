"""What guards say: what happened, since which step, with numbers, and which recipe key to change."""

from __future__ import annotations

from collections.abc import Callable

from burnish.control.reading import Reading, Streak
from burnish.control.spec import GuardsSpec

Sentence = Callable[[Streak, Reading, GuardsSpec], str]
"""Of a streak, the step that lengthened it last, and the limits."""

_REASONS = "each missing one has its reason in the traces (`burnish show RUN`)"


def silent(streak: Streak, reading: Reading, spec: GuardsSpec) -> str:
    """No sample has a reward."""
    return (
        f"{_when(streak, reading)} none of {streak.total:,.0f} samples got a reward, so the verifier or reward "
        f"function does not work; {_REASONS}. Look at `rewards`: its columns, and a function's time_limit"
    )


def truncated(streak: Streak, reading: Reading, spec: GuardsSpec) -> str:
    """Nearly all samples were cut off."""
    length = "" if reading.length is None else f" at {reading.length:,.0f} tokens on average"
    return (
        f"{_when(streak, reading)} {_percent(streak.mean)} of the samples were cut off{length} before they came to an "
        "end: raise sampling.max_tokens, or ask for shorter answers in `data`. Where samples are meant to fill "
        "max_tokens, turn this guard off"
    )


def discarded(streak: Streak, reading: Reading, spec: GuardsSpec) -> str:
    """Too many samples were drawn and then not trained on."""
    share, masked = reading.discarded or 0.0, reading.masked or 0.0
    missing = share - masked
    if missing > masked:
        advice = f"{_REASONS}; look at `rewards`: its columns, and a function's time_limit"
    else:
        advice = "raise sampling.max_tokens, or turn off options.mask_truncated"
    return (
        f"{_when(streak, reading)} {_percent(streak.mean)} of the samples left training (guards.discarded_share: "
        f"{spec.discarded_share:g}); in the last step {_percent(missing)} had no reward and {_percent(masked)} were "
        f"masked: {advice}"
    )


def entropy(streak: Streak, reading: Reading, spec: GuardsSpec) -> str:
    """Samples of a prompt are all alike."""
    reward = "" if reading.reward is None else f" at a mean reward of {reading.reward:.3g}"
    return (
        f"{_when(streak, reading)} the samples of a prompt hardly differed, {streak.mean:.2g} nats of entropy a "
        f"sample on average (guards.entropy_floor: {spec.entropy_floor:g}){reward}: the policy has collapsed and "
        "explores nothing. Start again, or from an earlier checkpoint, with a lower optimizer.lr, an entropy bonus "
        "(options.entropy), a higher sampling.temperature, or looser sampling.top_k, top_p and min_p"
    )


def zero_variance(streak: Streak, reading: Reading, spec: GuardsSpec) -> str:
    """No group has two different rewards."""
    when, count = _when(streak, reading), f"{streak.samples:,.0f} samples"
    if streak.low is None or streak.high is None:
        return f"{when} no group had two different rewards, so nothing is learned: {_harder_or_easier()}"
    if streak.low == streak.high:
        return (
            f"{when} all of {count} got the reward {streak.low:g}, so no group had two different ones and nothing is "
            f"learned: {_harder_or_easier()}"
        )
    mean = "" if reading.reward is None else f", {reading.reward:.3g} on average in the last step"
    return (
        f"{when} no group had two different rewards ({count}, rewards from {streak.low:g} to {streak.high:g}{mean}), "
        "so nothing is learned: each prompt always succeeds or always fails. Take tasks in between (`data`), sample "
        "more of each prompt (samples_per_prompt), or more freely (sampling.temperature)"
    )


def solved(streak: Streak, lowest: float | None) -> str:
    """All rewards are the best one of the run; the run goes on."""
    before = "" if lowest is None else f" (the lowest: {lowest:g})"
    return (
        f"since step {streak.since} every sample has the reward {streak.high:g}, the best one of this run{before}: "
        "nothing more is learned from these tasks. Stop here (Ctrl-C saves first), or take harder ones (`data`); if a "
        "higher reward is possible, sample more freely (sampling.temperature)"
    )


def _harder_or_easier() -> str:
    return (
        "make the tasks easier or harder (`data`), the reward denser (`rewards`), or sample more of each prompt "
        "(samples_per_prompt)"
    )


def _when(streak: Streak, reading: Reading) -> str:
    if streak.steps == 1:
        return f"in step {reading.step}"
    return f"since step {streak.since}, in {streak.steps} steps,"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
